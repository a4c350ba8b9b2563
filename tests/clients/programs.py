"""Programs of the system that speak to Redis, and how they are run."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import NamedTuple

import pytest

RUN_S_MAX = 60.0


class Outcome(NamedTuple):
    """What became of a program that ran to its end."""

    code: int
    output: str
    errors: str


def program(name: str) -> str:
    """Return where a program is; skip the test without it, or fail it in CI."""
    path = shutil.which(name)
    if path is None:
        assert not os.environ.get("CI"), f"{name} is missing"
        pytest.skip(f"{name} is missing")
    return path


def run(name: str, *words: str, given: str | None = None) -> Outcome:
    """Run a program to its end.

    Args:
        name: of the program.
        words: of its command line, after its name.
        given: what it reads from its standard input; None: there is none.
    """
    done = subprocess.run(
        [program(name), *words],
        input=given,
        stdin=subprocess.DEVNULL if given is None else None,
        capture_output=True,
        text=True,
        timeout=RUN_S_MAX,
        check=False,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)
