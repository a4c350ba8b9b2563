"""A program that runs lines of a shell in turn, and all jobs among them on one Spark.

`python -m tests.pipeline.in_turn <line>…` ends with the first line that fails. A user's shell
starts a Spark for each job; what a job does is the same.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Sequence
from itertools import groupby

from headgate.pipeline.cli import main

JOB = "headgate-pipeline "


def line_of(words: Sequence[str]) -> str:
    """Return the line that runs a job."""
    return JOB + shlex.join(words)


def run(lines: Sequence[str]) -> None:
    for is_job, group in groupby(lines, lambda line: line.startswith(JOB)):
        if not is_job:
            subprocess.run(["bash", "-ec", "\n".join(group)], check=True)
            continue
        for line in group:
            if code := main(shlex.split(line)[1:], standalone_mode=False):
                sys.exit(code)
            sys.stdout.flush()


if __name__ == "__main__":
    run(sys.argv[1:])
