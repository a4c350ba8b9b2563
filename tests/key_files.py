"""Files of keys for gateways in tests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from headgate.app.auth.grants import Grant, UsageLimits, Verb
from headgate.app.auth.keys.key import ApiKey, make_key
from headgate.app.auth.keys.key_file import create_keys

EVERYTHING = Grant(streams=["*"], do=list(Verb))


def key_in(
    path: Path,
    name: str = "test",
    grants: Sequence[Grant] = (EVERYTHING,),
    limits: UsageLimits | None = None,
) -> str:
    """Make a file with one key, and return the key."""
    text = make_key()
    key = ApiKey(
        id=text.id,
        name=name,
        sha256=text.sha256,
        grants=list(grants),
        limits=limits or UsageLimits(),
        created_at_ms=0,
    )
    assert create_keys(path, {text.id: key})
    return str(text)
