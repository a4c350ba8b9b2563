"""Checker: whether keys that take turns waited for one turn of each other key at most.

What consumers were told does not decide it, as some of them are killed before they can tell. The
journal has all that was decided, in order, if nothing of it was rewritten.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from headgate.engine import commands as c
from headgate.engine.entry import EntryId, Fields
from headgate.engine.journal.names import is_segment
from headgate.engine.journal.records import Kind, read_blocks, read_header


def violations_of_rotation(
    commands: Iterable[c.Command], key_of: Callable[[Fields], bytes], pending_max: int
) -> list[str]:
    """Return the violations of the rotation of one group over the keys of its stream.

    A key has something to deliver while there is an entry that was never delivered, and fewer than
    `pending_max` are pending. From then on until its next entry is delivered for the first time,
    each other key gets one turn at most.

    Args:
        commands: what was decided since the group was made, in order.
        key_of: returns the key of an entry.
        pending_max: the entries of a key that may be pending.
    """
    rotation = _Rotation(pending_max)
    for command in commands:
        if isinstance(command, c.EntriesAdded):
            for entry in command.entries:
                rotation.add(entry.id, key_of(entry.fields))
        elif isinstance(command, c.EntriesDelivered):
            for entry_id in command.delivered:
                rotation.deliver(entry_id)
        elif isinstance(command, c.EntriesAcked):
            for entry_id in command.ids:
                rotation.settle(entry_id)
    return rotation.wrong


class _Rotation:
    def __init__(self, pending_max: int) -> None:
        self._pending_max = pending_max
        self._keys: dict[EntryId, bytes] = {}
        self._ahead: Counter[bytes] = Counter()
        self._pending: Counter[bytes] = Counter()
        self._ready_since: dict[bytes, int] = {}  # after so many deliveries
        self._delivered_count = 0
        self.wrong: list[str] = []

    def add(self, entry_id: EntryId, key: bytes) -> None:
        self._keys[entry_id] = key
        self._change(key, 1, 0)

    def deliver(self, entry_id: EntryId) -> None:
        key = self._keys[entry_id]
        waited = self._delivered_count - self._ready_since.pop(key, self._delivered_count)
        if waited >= len(self._ahead):
            self.wrong.append(f"{entry_id} of {key!r} came after {waited} other entries")
        self._delivered_count += 1
        self._change(key, -1, 1)

    def settle(self, entry_id: EntryId) -> None:
        self._change(self._keys[entry_id], 0, -1)

    def _change(self, key: bytes, ahead: int, pending: int) -> None:
        self._ahead[key] += ahead
        self._pending[key] += pending
        if self._ahead[key] and self._pending[key] < self._pending_max:
            self._ready_since.setdefault(key, self._delivered_count)
        else:
            self._ready_since.pop(key, None)


def journalled(directory: Path, stream: bytes, group: bytes) -> Iterator[c.Command]:
    """Yield what the journal in a directory has of a group and its stream."""
    for path in sorted(each for each in directory.iterdir() if is_segment(each.name)):
        with path.open("rb") as file:
            header = read_header(file, path.name, Kind.JOURNAL)
            for block in read_blocks(file, path.name, header):
                for record in c.decode_all(block.payload):
                    for command in record:
                        if getattr(command, "stream", None) != stream:
                            continue
                        if getattr(command, "group", group) == group:
                            yield command
