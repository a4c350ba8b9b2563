"""Files of keys for gateways in tests."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headgate.app.auth.grants import Grant, UsageLimits, Verb
from headgate.app.auth.key_file import ApiKey, change_keys, make_key

EVERYTHING = Grant(streams=["*"], do=list(Verb), create=True)


@dataclass
class Keys:
    """A keys file."""

    path: Path
    ids: dict[str, str] = field(default_factory=dict)  # by the text of a key

    def add(
        self, *grants: Grant, name: str = "tester", limits: UsageLimits | None = None, **more: Any
    ) -> str:
        """Add a key; returns its text."""
        text = make_key()
        key = ApiKey(
            id=text.id,
            name=name,
            sha256=text.sha256,
            grants=list(grants),
            created_at_ms=0,
            **({} if limits is None else {"limits": limits}),
            **more,
        )
        change_keys(self.path, lambda keys: keys.update({key.id: key}))
        self.ids[str(text)] = text.id
        return str(text)

    def revoke(self, text: str) -> None:
        """Revoke a key."""

        def change(keys: dict[str, ApiKey]) -> None:
            key = keys[self.ids[text]]
            keys[key.id] = key.model_copy(update={"revoked_at_ms": 1})

        change_keys(self.path, change)
