"""The error of a nack is kept while its entry is pending, in memory and on disk."""

import io
from typing import Any

import msgspec
import pytest

from headgate.engine.commands import EntriesReleased, ErrorNoted, decode
from headgate.engine.journal import snapshot
from headgate.engine.journal.records import Kind, read_blocks, read_header
from headgate.engine.limits import ERRORS_MAX
from headgate.engine.requests.deliveries import Nack, NackMode
from headgate.engine.requests.keyspace import CopyStream
from headgate.engine.state.keyspace import Keyspace
from headgate.engine.state.memory import Memory
from headgate.engine.state.pending import Pel
from tests.journals.records import records_of
from tests.unit.driver import Driver, G, S, entry_id


@pytest.fixture
def engine() -> Driver:
    return Driver()


async def fail(engine: Driver, *numbers: int, error: bytes | None) -> None:
    ids = [entry_id(number) for number in numbers]
    await engine.perform(Nack(S, G, ids, NackMode.FAIL, error=error))


def items_of(keyspace: Keyspace) -> tuple[list[Any], Keyspace]:
    """Return the items of a snapshot of a state, and what is loaded from it."""
    data = b"".join(snapshot.pieces(keyspace, 1))
    file = io.BytesIO(data)
    blocks = list(read_blocks(file, "x", read_header(file, "x", Kind.SNAPSHOT)))
    items = [item for block in blocks for item in msgspec.msgpack.decode(block.payload)]
    return items, snapshot.load(blocks, "x")


async def test_files_without_errors_are_as_they_were_before_there_were_any(engine: Driver) -> None:
    """So an earlier release reads them, and those of an earlier release are read."""
    await engine.start(1)
    await engine.take()
    await fail(engine, 1, error=None)

    assert decode(records_of(engine)[-1]) == [EntriesReleased(S, G, [(entry_id(1), 1)])]
    numbers = [item[0] for item in items_of(engine.keyspace)[0]]
    assert numbers == [1, 2, 3, 5, 6, 7]

    await fail(engine, 1, error=b"timeout")
    assert decode(records_of(engine)[-1])[1:] == [ErrorNoted(S, G, [entry_id(1)], b"timeout")]
    assert [item[0] for item in items_of(engine.keyspace)[0]] == [1, 2, 3, 5, 6, 9, 7]


async def test_a_copy_of_a_stream_has_its_errors(engine: Driver) -> None:
    await engine.start(1, 2)
    await engine.take()
    await fail(engine, 1, error=b"timeout")
    await engine.perform(CopyStream(S, b"copy"))

    assert engine.keyspace.group(b"copy", G).pel.errors == {entry_id(1): b"timeout"}


def test_only_the_errors_noted_last_are_kept_and_their_memory_is_counted() -> None:
    memory = Memory()
    pel = Pel(memory)
    for number in range(ERRORS_MAX + 2):
        pel.release(entry_id(number), 1)
        pel.note_error(entry_id(number), b"x" * 1_000)
    pel.note_error(entry_id(2), b"y")

    assert len(pel.errors) == ERRORS_MAX
    assert [*pel.errors][:: ERRORS_MAX - 1] == [entry_id(3), entry_id(2)]
    assert memory.pending_bytes == pel.memory_bytes > (ERRORS_MAX - 1) * 1_000
    for number in range(ERRORS_MAX + 2):
        pel.remove(entry_id(number))
    assert (memory.pending_bytes, pel.memory_bytes, pel.errors) == (0, 0, {})
