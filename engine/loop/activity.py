"""Activity: counts what commands do, as they are applied. Recovery does not count.

A table maps the kind of a command to what it counts as. One look-up shows that most commands count
as nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headgate.engine import commands as c
from headgate.engine.state.group import Activity, Group
from headgate.engine.state.keyspace import Keyspace


class TotalActivity(Activity):
    """The counts of all streams."""

    __slots__ = ("appended_count",)

    def __init__(self) -> None:
        """Begin at zero."""
        super().__init__()
        self.appended_count = 0

    def note(self, keyspace: Keyspace, command: c.Command) -> None:
        """Count the effects of a command. Call this before the command is applied."""
        count = _COUNTS.get(type(command))
        if count is not None:
            count(self, keyspace, command)


def _append(total: TotalActivity, _: Keyspace, command: c.EntriesAdded) -> None:
    total.appended_count += len(command.entries)


def _append_chunks(total: TotalActivity, _: Keyspace, command: c.ChunksAdded) -> None:
    total.appended_count += sum(chunk.entry_count for chunk in command.chunks)


def _deliver(total: TotalActivity, keyspace: Keyspace, command: c.EntriesDelivered) -> None:
    group = keyspace.group(command.stream, command.group)
    new_count = len(command.delivered) or _read_without_ack(group, command)
    for activity in (total, group.activity):
        activity.delivered_count += new_count
        activity.redelivered_count += len(command.claimed)
        activity.passed_count += command.passed_count
        activity.expired_count += command.expired_count


def _read_without_ack(group: Group, command: c.EntriesDelivered) -> int:
    """Return the number of entries that a read without acks (NOACK) delivers; 0: it is unknown."""
    if group.entries_read is None or command.entries_read is None:
        return 0
    not_delivered = command.passed_count + command.expired_count
    return max(command.entries_read - group.entries_read - not_delivered, 0)


def _redeliver(
    total: TotalActivity, keyspace: Keyspace, command: c.EntriesRedelivered | c.EntriesClaimed
) -> None:
    again = command.counts if isinstance(command, c.EntriesClaimed) else command.ids
    total.redelivered_count += len(again)
    keyspace.group(command.stream, command.group).activity.redelivered_count += len(again)


def _settle(total: TotalActivity, keyspace: Keyspace, command: c.EntriesAcked) -> None:
    for activity in (total, keyspace.group(command.stream, command.group).activity):
        if command.are_dead_letters:
            activity.dead_letter_count += len(command.ids)
        else:
            activity.acked_count += len(command.ids)


def _expire(total: TotalActivity, keyspace: Keyspace, command: c.EntriesExpired) -> None:
    for activity in (total, keyspace.group(command.stream, command.group).activity):
        activity.expired_count += len(command.ids)


_COUNTS: dict[type, Callable[[TotalActivity, Keyspace, Any], None]] = {
    c.EntriesAdded: _append,
    c.ChunksAdded: _append_chunks,
    c.EntriesDelivered: _deliver,
    c.EntriesRedelivered: _redeliver,
    c.EntriesClaimed: _redeliver,
    c.EntriesAcked: _settle,
    c.EntriesExpired: _expire,
}
