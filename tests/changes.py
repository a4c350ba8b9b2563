"""Changes: requests that set all of a configuration, of a policy, or of a position."""

from __future__ import annotations

from msgspec import UNSET

from headgate.engine.config import GroupPolicy, Patch, StreamConfig
from headgate.engine.requests.groups import GroupStart, UpdateGroup
from headgate.engine.requests.streams import UpdateStream


def configured(stream: bytes, config: StreamConfig) -> UpdateStream:
    """Return the request that gives a stream this configuration."""
    return UpdateStream(stream, Patch.to(config))


def acting_by(stream: bytes, group: bytes, policy: GroupPolicy) -> UpdateGroup:
    """Return the request that gives a group this policy."""
    patch = Patch.to(policy)
    return UpdateGroup(stream, group, policy=patch)


def moved(stream: bytes, group: bytes, start: GroupStart) -> UpdateGroup:
    """Return the request that sets a group's position."""
    entries_read = UNSET if start.entries_read is None else start.entries_read
    return UpdateGroup(stream, group, start.last_id, entries_read)
