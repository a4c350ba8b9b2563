"""A plugin of pytest: notes which tests run which lines of the rooms, and how long each test takes.

    pytest -p tests.mutation.covering

Each process writes a file of its own into `LINES_NOTED_INTO`, a folder. What a test starts as
another process is not noted.
"""

from __future__ import annotations

import os
import pickle
from collections import defaultdict
from pathlib import Path
from typing import Any

import coverage
import pytest

from tests.mutation.mutants import ROOMS

ROOT = Path(__file__).parents[2]

_coverage = coverage.Coverage(
    data_file=None, config_file=False, source=[str(ROOT / room) for room in ROOMS]
)
_seconds: defaultdict[str, float] = defaultdict(float)


def pytest_configure(config: pytest.Config) -> None:
    """Begin to note."""
    if _is_runner(config):
        _coverage.start()


def pytest_runtest_logstart(nodeid: str) -> None:
    """Note from now on what this test runs."""
    if coverage.Coverage.current() is _coverage:
        _coverage.switch_context(nodeid)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note how long a part of a test took."""
    _seconds[report.nodeid] += report.duration


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write what was noted."""
    if not _is_runner(session.config):
        return
    _coverage.stop()
    data = _coverage.get_data()
    lines: dict[tuple[str, int], list[str]] = {}
    for path in data.measured_files():
        short = str(Path(path).resolve().relative_to(ROOT))
        for line, contexts in data.contexts_by_lineno(path).items():
            lines[short, line] = [context for context in contexts if context]
    folder = Path(os.environ["LINES_NOTED_INTO"])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{os.getpid()}.pickle").write_bytes(pickle.dumps((lines, dict(_seconds))))


def _is_runner(config: pytest.Config) -> bool:
    """Tell whether this process runs tests, and does not hand them to others."""
    return hasattr(config, "workerinput") or not getattr(config.option, "numprocesses", None)


def read(folder: Path) -> tuple[dict[tuple[str, int], list[str]], dict[str, float]]:
    """Return the tests that run each line, and the seconds of each test."""
    tests: defaultdict[tuple[str, int], list[str]] = defaultdict(list)
    seconds: dict[str, float] = {}
    for path in folder.glob("*.pickle"):
        part: Any = pickle.loads(path.read_bytes())
        for place, names in part[0].items():
            tests[place] += names
        seconds |= part[1]
    return dict(tests), seconds
