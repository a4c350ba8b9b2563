"""Programs of the system that speak to Redis, and how they are run."""

import subprocess
from typing import NamedTuple

from tests.installed import program

RUN_S_MAX = 60.0


class Outcome(NamedTuple):
    """The outcome of a program that ran to its end."""

    code: int
    output: str
    errors: str


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
