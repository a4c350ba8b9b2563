"""Programs that a release is made with."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

RUN_S_MAX = 600.0


class NotReleased(Exception):
    pass


def run(*command: str | Path, folder: Path, variables: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(
        list(map(str, command)),
        cwd=folder,
        env=variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=RUN_S_MAX,
        check=False,
    )
    if done.returncode:
        words = " ".join(map(str, command))
        raise NotReleased(f"`{words}` has failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def variables_of_nobody() -> dict[str, str]:
    """Return the environment without what points to this checkout or configures a gateway."""
    names = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"}
    return {
        name: text
        for name, text in os.environ.items()
        if name not in names and not name.startswith("HEADGATE_")
    }
