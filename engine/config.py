"""Configuration of a stream and of a group, and patches, which change some of it.

A patch says what is to be changed: `None` removes what can be left out, `UNSET` leaves it as it is.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec
from msgspec import UNSET, UnsetType

S = TypeVar("S", bound=msgspec.Struct)


class StreamConfig(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """The retention and the idempotency limits of a stream. None is without bound."""

    max_length: int | None = None  # entries
    max_age_ms: int | None = None  # by the time in the entry's id
    idempotency_window_ms: int | None = None  # how long a key protects; None: the engine's default
    idempotency_max: int | None = None  # keys of one producer; None: the engine's default

    @property
    def retains(self) -> bool:
        """Tell whether entries go by themselves."""
        return self.max_length is not None or self.max_age_ms is not None


class StreamPatch(msgspec.Struct, frozen=True, kw_only=True):
    """A partial change of a `StreamConfig`."""

    max_length: int | UnsetType | None = UNSET
    max_age_ms: int | UnsetType | None = UNSET
    idempotency_window_ms: int | UnsetType | None = UNSET
    idempotency_max: int | UnsetType | None = UNSET


class GroupPolicy(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """The rules of one group; each may be left out."""

    claim_idle_ms: int | None = None  # reads take over what is idle for so long
    max_deliveries: int | None = None  # an entry delivered so often is not delivered again …
    dead_letter_stream: bytes | None = None  # … but moved there
    backoff_ms: tuple[int, ...] = ()  # how long a failed entry rests before its 2nd, 3rd … delivery
    max_pending: int | None = None  # a consumer that holds so many gets no more
    keeps: bool = False  # what a connection leaves unsettled waits for its consumer
    consumer_ttl_ms: int | None = None  # a consumer idle for so long, with nothing pending, goes

    @property
    def other_streams(self) -> list[bytes]:
        """Return the streams that the policy writes to: each field of bytes names one."""
        return _names_in(self)

    @property
    def acts_by_time(self) -> bool:
        """Tell whether something is to be done when nobody asks."""
        return self.max_deliveries is not None or self.consumer_ttl_ms is not None

    def on(self, stream: bytes) -> GroupPolicy:
        """Return the policy as it applies to a stream: none is its own dead letter stream.

        It may have been given that name after the policy was set.
        """
        if self.dead_letter_stream != stream:
            return self
        return msgspec.structs.replace(self, max_deliveries=None, dead_letter_stream=None)

    def is_spent(self, delivery_count: int) -> bool:
        """Tell whether an entry has used up its deliveries."""
        return self.max_deliveries is not None and delivery_count >= self.max_deliveries

    def delay_ms(self, delivery_count: int) -> int:
        """Return the delay of an entry before its next delivery, by its number of deliveries."""
        if not self.backoff_ms:
            return 0
        return self.backoff_ms[min(max(delivery_count, 1), len(self.backoff_ms)) - 1]


NO_POLICY = GroupPolicy()
"""The policy of Redis: it does nothing by itself."""


class PolicyPatch(msgspec.Struct, frozen=True, kw_only=True):
    """A partial change of a `GroupPolicy`."""

    claim_idle_ms: int | UnsetType | None = UNSET
    max_deliveries: int | UnsetType | None = UNSET
    dead_letter_stream: bytes | UnsetType | None = UNSET
    backoff_ms: tuple[int, ...] | UnsetType = UNSET
    max_pending: int | UnsetType | None = UNSET
    keeps: bool | UnsetType = UNSET
    consumer_ttl_ms: int | UnsetType | None = UNSET

    @property
    def other_streams(self) -> list[bytes]:
        """Return the streams that it makes the policy write to."""
        return _names_in(self)


def _names_in(policy: GroupPolicy | PolicyPatch) -> list[bytes]:
    return [value for value in msgspec.structs.astuple(policy) if isinstance(value, bytes)]


def patched(value: S, patch: StreamPatch | PolicyPatch) -> S:
    """Return a configuration or a policy with the changes of a patch."""
    changes = msgspec.structs.asdict(patch)
    return msgspec.structs.replace(
        value, **{name: new for name, new in changes.items() if new is not UNSET}
    )
