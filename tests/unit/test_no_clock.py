"""No test of the gate sleeps or reads a clock: it waits for an event, or in virtual time.

`tests/conftest.py` refuses `asyncio.sleep` on a real event loop, and lists the files that are left
out.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.conftest import TESTS, is_long, may_wait

CLOCKS = ("monotonic", "perf_counter", "process_time", "sleep", "thread_time")


def test_the_gate_reads_no_clock() -> None:
    assert [place for path in gate_files() for place in readings(path)] == []


def gate_files() -> Iterator[Path]:
    programs = TESTS / "bench", TESTS / "mutation"
    for path in sorted(TESTS.rglob("*.py")):
        if not (is_long(path) or may_wait(path) or set(programs) & set(path.parents)):
            yield path


def readings(path: Path) -> Iterator[str]:
    """Yield where a file reads a clock, or sleeps."""
    name = path.relative_to(TESTS).as_posix()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        match node:
            case ast.Attribute(ast.Name("time"), word) if word.startswith(CLOCKS):
                yield f"{name}:{node.lineno} time.{word}"
            case ast.ImportFrom(module="time", names=names):
                yield from (f"{name}:{node.lineno} {each.name}" for each in names)
