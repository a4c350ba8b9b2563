"""Requests: what may be asked of a backend, one value for each command; nothing of the state in it.

A patch says what is to be changed: `None` removes what can be left out, `UNSET` leaves it as it is.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from headgate.engine.entry import EntryId

S = TypeVar("S", bound=msgspec.Struct)


class StreamPatch(msgspec.Struct, frozen=True, kw_only=True):
    """What to change of a `StreamConfig`."""

    max_length: int | UnsetType | None = UNSET
    max_age_ms: int | UnsetType | None = UNSET
    idempotency_window_ms: int | UnsetType | None = UNSET
    idempotency_max: int | UnsetType | None = UNSET


class PolicyPatch(msgspec.Struct, frozen=True, kw_only=True):
    """What to change of a `GroupPolicy`."""

    claim_idle_ms: int | UnsetType | None = UNSET
    max_deliveries: int | UnsetType | None = UNSET
    dead_letter_stream: bytes | UnsetType | None = UNSET
    backoff_ms: tuple[int, ...] | UnsetType = UNSET
    max_pending: int | UnsetType | None = UNSET
    keeps: bool | UnsetType = UNSET
    consumer_ttl_ms: int | UnsetType | None = UNSET


class UpdateStream(NamedTuple):
    """Change the configuration of a stream."""

    stream: bytes
    config: StreamPatch


class UpdateGroup(NamedTuple):
    """Change where a group reads on, or by what policy it acts: all of it, or nothing."""

    stream: bytes
    group: bytes
    last_id: EntryId | UnsetType | None = UNSET  # None: the stream's last id (`$`)
    entries_read: int | UnsetType = UNSET  # unknown if only `last_id` is given
    policy: PolicyPatch = PolicyPatch()

    @property
    def moves(self) -> bool:
        """Tell whether it changes the position."""
        return self.last_id is not UNSET or self.entries_read is not UNSET


def patched(value: S, patch: StreamPatch | PolicyPatch) -> S:
    """Return a configuration or a policy with what a patch says changed."""
    said = msgspec.structs.asdict(patch)
    return msgspec.structs.replace(
        value, **{name: new for name, new in said.items() if new is not UNSET}
    )
