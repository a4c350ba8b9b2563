"""Checkers: what must hold whatever happens. This is the specification of the simulation.

When a directory is recovered:

1. Recovery succeeds. A crash, wherever it comes, tears at most the tail of the last segment; that
   is cut off and put aside. It never reads as damage, and is never refused. (`recovered`)
2. What is recovered is exactly what the records up to some position lead to, in order, each of
   them whole, each once: entries with their fields, counters, groups, pending entries with owner,
   time and count, idempotency keys, settings. (`recovered`)
3. That position is not below the *floor*, and not above the last record. Under `always` the floor
   is the highest position an answer depends on: a write's own record, and every record that was
   there when a read was decided. Under the other policies it is that if only the process ended; if
   the power went, what was synced, which under `everysec` is all that was answered longer ago than
   a second and what a sync takes. What was recovered once is never lost again. (`recovered`)
4. Within one life of a stream no id is given twice and every one is above all before it, over all
   crashes and whatever the clock did, unless XSETID has set an empty stream back; no two lives
   have one epoch. (`History.recover`)

While it runs:

5. No answer tells of a record that is not as safe as the policy asks. Whatever a read returns was
   recorded. What one request adds is one record: recovered whole, or not at all. (`answered`)
6. The state is what the records lead to. (`same_state`)
7. Every request ends, with a reply or a `StreamError`; a blocked one at the latest when the engine
   drains or fails. (`lives`)
8. Once a sync has failed, nothing is recorded any more, every write and whatever was waiting raise
   `Unavailable` with the reason, the same file is never synced again, and reads show exactly what
   is durable. (`refused`, `same_state`)
   After anything else that did not work, everything works again as soon as the disk does, without a
   restart. What was given up meanwhile was promised to nobody, and the state is what the other
   records lead to. (`RecordedJournal`, `lives`)
9. A rewrite fails only if the disk does, and then leaves nothing behind. (`reported`)
10. An orderly stop leaves everything recorded safe, whatever the policy. (`recovered`)
11. If a step raises what it may not, what was done before it counts. If a command cannot be
   applied, or a task without which nothing works ends, `Engine.run` raises, every request ends all
   the same, and what was promised is recovered. (`lives`)
12. However often the wall clock is set, as much time passes for what waits as for the loop, and
   nothing is recorded as later than now. (`waits`)

And when bytes that were safe are changed on the disk:

13. The error is `Corrupt`, unless nothing was written behind them since they were safe: then they
   look like a torn tail. Under `always`. (`damaged`)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

from headgate.engine.engine import Engine
from headgate.engine.entry import Entry, EntryId
from headgate.engine.errors import Corrupt, Draining, StreamError, Unavailable
from headgate.engine.journal import recovery, snapshot
from headgate.engine.journal.damage import examine
from headgate.engine.journal.journal import Journal
from headgate.engine.journal.names import is_extents
from headgate.engine.journal.records import Kind, read_blocks, read_header
from headgate.engine.journal.recovery import Loaded
from headgate.engine.limits import CLOCK_STEP_MS_MIN
from headgate.engine.replies import Added, GroupRead, StreamRead
from headgate.engine.state.keyspace import Keyspace
from tests.model import snapshot as model
from tests.simulation.disk import Faults, SimulatedDisk
from tests.simulation.history import History, Request
from tests.simulation.platter import Platter


class ViolationError(AssertionError):
    """Something did not hold."""


def ensure(holds: bool, text: str) -> None:
    """Raise unless something holds."""
    if not holds:
        raise ViolationError(text)


def recovered(history: History, loaded: Loaded, floor: int) -> None:
    """Check the state after a recovery, and make that the history."""
    position = loaded.position
    ensure(position >= floor, f"recovered {position} records, and {floor} had to be there")
    last = history.position
    ensure(position <= last, f"recovered {position} records, and there were only {last}")
    expected = history.recover(position)
    same_state(loaded.keyspace, expected, "recovered")
    if loaded.keyspace.memory.files:
        return  # what is cold is described in another way
    expected.last_extent_file = loaded.keyspace.last_extent_file
    actual, wanted = (
        b"".join(snapshot.pieces(keyspace, position)) for keyspace in (loaded.keyspace, expected)
    )
    ensure(actual == wanted, "the recovered state is not what the records lead to")


def indexes(keyspace: Keyspace) -> tuple[Any, ...]:
    """Return the indexes of a keyspace besides its streams."""
    return (
        sorted(keyspace.keyed),
        sorted(keyspace.retaining),
        sorted(keyspace.governed),
        list(keyspace.expiring),
        keyspace.defaults,
    )


def same_state(actual: Keyspace, expected: Keyspace, when: str) -> None:
    """Check that two states are equal as far as anybody can tell."""
    for part in (model.snapshot, indexes, keys):
        left, right = part(actual), part(expected)
        ensure(left == right, f"{when}: the state is\n{left}\nbut the records lead to\n{right}")


def keys(keyspace: Keyspace) -> list[Any]:
    """Return idempotency keys in order of use, and their counters."""
    return [
        (name, stream.keys.added, stream.keys.duplicates, stream.keys.by_producer)
        for name, stream in keyspace.streams.items()
    ]


def answered(history: History, journal: Journal, request: Request, reply: Any) -> int:
    """Check a reply; returns the position it depends on."""
    position = max([request.position, *_positions(history, request, reply)])
    durable = journal.durable_position
    ensure(
        position <= durable,
        f"{request.name} was answered out of record {position}, and {durable} is durable",
    )
    added = [history.records_of.get(each, set()) for each in _added_ids(reply)]
    ensure(
        not added or not all(added) or bool(set.intersection(*added)),
        f"{request.name} added entries in more than one record",
    )
    return position


def _added_ids(reply: Any) -> list[EntryId]:
    """Return the ids of entries that a request has added; a repeat adds none."""
    items = reply if isinstance(reply, list) else [reply]
    return [
        entry_id
        for item in items
        if isinstance(item, Added) and not item.is_repeat
        for entry_id in item.ids
    ]


def _positions(history: History, request: Request, reply: Any) -> Iterator[int]:
    for entry_id in _added_ids(reply):
        yield min(history.records_of.get(entry_id, {0}))
    for item in reply if isinstance(reply, list) else ():
        match item:
            case Entry():
                yield _added_at(history, item)
            case StreamRead(entries=entries):
                yield from (_added_at(history, entry) for entry in entries)
            case GroupRead(stream, deliveries):
                for each in deliveries:
                    if each.fields is not None:
                        yield _added_at(history, Entry(each.id, each.fields))
                    if request.reader is not None:
                        key = stream, *request.reader, each.id
                        places = history.delivered_at.get(key, [])
                        yield next((at for at in places if at > request.asked_at), 0)


def _added_at(history: History, entry: Entry) -> int:
    ensure(entry in history.added_at, f"{entry} was read, and nobody has added it")
    return history.added_at[entry]


def refused(journal: Journal, disk: SimulatedDisk, error: StreamError) -> None:
    """Check that an error which says that nothing can be promised gives the reason."""
    if isinstance(error, Unavailable) and not isinstance(error, Draining):
        excused = any(text in str(error) for text in [*disk.errors, *_REASONS])
        ensure(excused, f"refused because of {error}, not of {journal.failure}")


_REASONS = [
    "the journal is closed",
    "the gateway has failed",
    "the process ends",
    "the journal is full",
    "the disk is full",
]


def waits(engine: Engine, steady_ms: int, off_ms_max: int) -> None:
    """Check that what waits goes by the time that has passed, whatever the wall clock shows.

    Args:
        engine: the engine.
        steady_ms: what time it is for what waits.
        off_ms_max: so far it may be off, as the clock was adjusted without a step.
    """
    found_ms, state = engine._executor.steady_ms(), engine.keyspace
    off_ms = abs(found_ms - steady_ms)
    ensure(off_ms <= off_ms_max, f"who waits is {off_ms} ms off the time that has passed")
    ahead_ms = state.latest_ms - found_ms
    ensure(ahead_ms < CLOCK_STEP_MS_MIN + off_ms_max, f"recorded times are {ahead_ms} ms ahead")
    shown_ms = state.steady_ms(engine._executor.clock.wall_ms())
    ensure(
        engine.refusal is not None or abs(shown_ms - found_ms) < CLOCK_STEP_MS_MIN,
        f"the clock was set by {shown_ms - found_ms} ms, and nothing says so",
    )


def reported(disk: SimulatedDisk, event: str, facts: Mapping[str, object]) -> None:
    """Check the events of the journal."""
    if event in _MISHAPS:
        reason = str(facts["reason"])
        excused = any(text in reason for text in disk.errors)
        if event == "journal cannot be read":  # a rewrite may have removed what was about to be
            excused |= disk.has_lost or "No such file" in reason
        ensure(excused, f"{event}, and the disk did not: {reason}")
    if event == "rewrite failed" and not disk.faults.outages:
        left = [name for name in disk.looked_at() if name.startswith("snapshot-")]
        left = [name for name in left if name.endswith(".new")]
        ensure(not left, f"{left[:1]} takes up room, and nobody will ever read it")


_MISHAPS = {
    "rewrite failed",
    "journal failed",
    "journal cannot be read",
    "journal not written for now",
    "segment not begun",
}


def damaged(platter: Platter, random: Random) -> None:
    """Damage a copy of what is safe, and check that it is reported."""
    copy = platter.copy()
    disk = SimulatedDisk(copy, random, Faults())
    name = random.choice(recovery.names_in_use(disk))
    data = copy.names[name].data
    at = random.randrange(len(data))
    if at >= _end_of_safe_part(disk, name):
        return
    data[at] ^= random.randint(1, 255)
    try:
        loaded = recovery.load(disk)
    except Corrupt:
        return
    is_lost = any(stream.lost for stream in loaded.keyspace.streams.values())
    if is_lost or any(True for _ in examine(disk, loaded.keyspace)):
        return
    undamaged = recovery.load(SimulatedDisk(platter, random, Faults())).keyspace
    if is_extents(name) and model.snapshot(loaded.keyspace) == model.snapshot(undamaged):
        return  # what is there is dead
    raise ViolationError(f"{name}: byte {at} was changed, and nobody noticed")


def _end_of_safe_part(disk: SimulatedDisk, name: str) -> int:
    """Return the offset of a file's last block, if no later one says that it was ever safe."""
    if name != recovery.names_in_use(disk)[-1] or name.startswith("snapshot-"):
        return disk.size_bytes(name)
    with disk.open(name) as file:
        header = read_header(file, name, Kind.JOURNAL)
        blocks = list(read_blocks(file, name, header))
    while len(blocks) > 1 and blocks[-2].first == blocks[-1].first:  # nothing is in that one
        blocks.pop()
    return blocks[-1].offset if blocks else 0
