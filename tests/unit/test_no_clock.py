"""No test of the gate sleeps or reads a clock: it waits for an event, or in virtual time.

`tests/conftest.py` refuses `asyncio.sleep` on a real event loop.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.conftest import LONG, QUICK, TESTS, may_wait

CLOCKS = ("monotonic", "perf_counter", "process_time", "sleep", "thread_time")


def test_the_gate_reads_no_clock() -> None:
    assert [place for path in gate_files() for place in readings(path)] == []


def gate_files() -> Iterator[Path]:
    for path in sorted(TESTS.rglob("*.py")):
        name = path.relative_to(TESTS).as_posix()
        if name in QUICK or not name.startswith((*LONG, "bench/", "mutation/")):
            yield path


def readings(path: Path) -> Iterator[str]:
    """Yield where a file reads a clock, or sleeps."""
    name = path.relative_to(TESTS).as_posix()
    if may_wait(path):
        return
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        match node:
            case ast.Attribute(ast.Name("time"), word) if word.startswith(CLOCKS):
                yield f"{name}:{node.lineno} time.{word}"
            case ast.ImportFrom(module="time", names=names):
                yield from (f"{name}:{node.lineno} {each.name}" for each in names)
