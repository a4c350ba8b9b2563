"""A failed command leaves nothing to the collector. Old objects may be kept for ever."""

import gc

import pytest

from headgate.app.backends.embedded import EmbeddedBackend
from headgate.app.redis_syntax.runs import CommandRunner
from headgate.engine.engine import Engine
from headgate.engine.errors import StreamError
from headgate.engine.journal.storage import MemoryStorage


def error_count() -> int:
    """Return how many errors of the engine are alive."""
    return sum(isinstance(each, StreamError) for each in gc.get_objects())


@pytest.mark.parametrize(
    "line",
    [
        *("XADD s 0-0 a 1", "XSETID missing 1-1", "XGROUP CREATE missing g 0"),
        *("XCFGSET missing NONSENSE 1", "XREADGROUP GROUP g c STREAMS missing >"),
        "XDEL s nonsense",
    ],
)
async def test_an_error_is_freed_when_it_is_answered(line: str) -> None:
    runner = CommandRunner(EmbeddedBackend(Engine(MemoryStorage())))
    await runner.run([b"XADD", b"s", b"1-1", b"a", b"1"])
    words = [word.encode() for word in line.split()]
    gc.collect()
    count_before = error_count()
    gc.disable()
    try:
        with pytest.raises(StreamError):
            await runner.run(words)
        await runner.run_all([words])
        count = error_count()
    finally:
        gc.enable()

    assert count == count_before
