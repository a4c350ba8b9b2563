"""Arrow bodies that are nearly right: each is taken or refused, and none ends the process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.fuzz import rounds

ROOT = Path(__file__).parents[2]
COUNT = 2000
"""Bodies of one process, to start which takes a second."""


def test_arrow_bodies_are_taken_or_refused() -> None:
    for seed in rounds.seeds(1):
        with rounds.ended(), rounds.reporting_seed(seed):
            child = [sys.executable, "-m", "tests.fuzz.arrow_child", str(seed), str(COUNT)]
            ended = subprocess.run(child, cwd=ROOT, capture_output=True, text=True, check=False)
            assert ended.returncode == 0, ended.stderr[-4000:]
