"""Score of the tests: the share of seeded small changes of the source that some test notices.

    make mutants                                      # notes what tests run, then tries 300 mutants
    make mutants ARGS='--noted --seed 2 --count 100'  # with what was noted before

A mutant is tried against the tests that run its line, the fastest first, in a copy of the
repository. A test that fails or hangs notices it. What is left is listed with its place.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from tests.mutation.covering import read
from tests.mutation.mutants import ROOMS, Mutant, chosen

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "mutants"
NOTED = BUILD / "noted"

LINKED = (".venv", "dist", "node_modules")
"""Folders that copies share."""

ENVIRONMENT = {"HEADGATE_TEST_SEED": "1"} | os.environ
"""Cases that are chosen by a seed are the same when they are noted and when they are run."""

TESTS_MAX = 60
"""Tests that one mutant is tried against."""

TESTS_S_MAX = 40.0
"""What those took together, when all was noted."""

HANGS_S = 240
"""A run that takes so long hangs."""


def main() -> None:
    """Try mutants, and print the score of each room."""
    parser = argparse.ArgumentParser(description="score of the tests by seeded mutants")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--rooms", nargs="+", choices=ROOMS, default=ROOMS)
    parser.add_argument("--noted", action="store_true", help="use what an earlier run noted")
    parser.add_argument("tests", nargs="*", help="the tests to note; all of the gate unless given")
    options = parser.parse_args()
    if not options.noted:
        _note(options.tests, options.processes)
    tests, seconds = read(NOTED)
    mutants = chosen(ROOT, options.rooms, options.count, options.seed)
    copies: SimpleQueue[Path] = SimpleQueue()
    for number in range(options.processes):
        copies.put(_copy(BUILD / f"copy-{number}"))

    def outcome(mutant: Mutant) -> str:
        picked = _picked(mutant, tests, seconds)
        if not picked:
            return "not run"
        copy = copies.get()
        try:
            return _tried(mutant, picked, copy)
        finally:
            copies.put(copy)

    with ThreadPoolExecutor(options.processes) as pool:
        outcomes = []
        for mutant, result in zip(mutants, pool.map(outcome, mutants), strict=True):
            outcomes.append((mutant, result))
            print(f"{result:9} {_shown(mutant)}", flush=True)
    _print_score(outcomes)


def _note(tests: list[str], processes: int) -> None:
    shutil.rmtree(NOTED, ignore_errors=True)
    options = ["-p", "tests.mutation.covering", f"-n{processes}", "--dist=loadfile", "-q"]
    environment = ENVIRONMENT | {"LINES_NOTED_INTO": str(NOTED)}
    subprocess.run(
        [sys.executable, "-m", "pytest", *options, *tests], cwd=ROOT, env=environment, check=False
    )


def _copy(copy: Path) -> Path:
    """Return a copy of what is in the repository; what was made or installed there is linked."""
    shutil.rmtree(copy, ignore_errors=True)
    ignored = shutil.ignore_patterns("build", "data", ".git", *LINKED)
    shutil.copytree(ROOT, copy, symlinks=True, ignore=ignored)
    for folder in (copy, *(package.parent for package in copy.rglob("package.json"))):
        for name in LINKED:
            made = ROOT / folder.relative_to(copy) / name
            if made.exists():
                (folder / name).symlink_to(made)
    return copy


def _picked(
    mutant: Mutant, tests: dict[tuple[str, int], list[str]], seconds: dict[str, float]
) -> list[str]:
    """Return the tests that run the line, fast ones first; of a line of a module, of its file."""
    names: Iterable[str] = tests.get((mutant.path, mutant.line), [])
    if not names:
        names = [name for (path, _), of in tests.items() if path == mutant.path for name in of]
    picked: list[str] = []
    total = 0.0
    for name in sorted(set(names), key=lambda name: (seconds.get(name, 0), name)):
        total += seconds.get(name, 0)
        if picked and (len(picked) >= TESTS_MAX or total > TESTS_S_MAX):
            break
        picked.append(name)
    return picked


def _tried(mutant: Mutant, picked: list[str], copy: Path) -> str:
    path = copy / mutant.path
    source = path.read_bytes()
    path.write_bytes(mutant.applied(source))
    try:
        exit_code = _exit_code(picked, copy)
    finally:
        path.write_bytes(source)
    if not exit_code:
        return "survived"
    # A test that fails without the mutant as well has not noticed it.
    return "unsure" if _exit_code(picked, copy) else "killed"


def _exit_code(picked: list[str], copy: Path) -> int:
    """Return that of pytest. With a mutant that no module can import, it finds no test: 4."""
    options = ["-x", "-q", "--timeout=60", "-m", "", "--no-header"]
    # In this order, the fastest first.
    options += ["-p", "no:cacheprovider", "-p", "no:randomly"]
    # Byte code goes by seconds, and a mutant may be as long as what it replaces.
    environment = ENVIRONMENT | {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(copy / "src")}
    command = [str(ROOT / ".venv/bin/python"), "-m", "pytest", *options, *picked]
    try:
        done = subprocess.run(
            command, cwd=copy, env=environment, capture_output=True, timeout=HANGS_S, check=False
        )
    except subprocess.TimeoutExpired:
        return 1
    return done.returncode


def _shown(mutant: Mutant) -> str:
    return mutant.shown((ROOT / mutant.path).read_bytes())


def _print_score(outcomes: list[tuple[Mutant, str]]) -> None:
    counts = Counter((mutant.room, result) for mutant, result in outcomes)
    print("\n| room | mutants | killed | survived | unsure | not run | score |")
    print("|---|---|---|---|---|---|---|")
    for room in dict.fromkeys(mutant.room for mutant, _ in outcomes):
        numbers = [counts[room, word] for word in ("killed", "survived", "unsure", "not run")]
        total = sum(numbers)
        cells = [f"`{room}`", total, *numbers, f"{numbers[0] / total:.0%}"]
        print("| " + " | ".join(map(str, cells)) + " |")
    left = [(result, _shown(mutant)) for mutant, result in outcomes if result != "killed"]
    (BUILD / "left.json").write_text(json.dumps(left, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
