"""Programs that the system has."""

import os
import shutil

import pytest


def program(name: str) -> str:
    """Return the path of a program; skip the test without it, or fail it in CI."""
    path = shutil.which(name) or shutil.which(name, path="/usr/sbin")
    if path is None:
        assert not os.environ.get("CI"), f"{name} is missing"
        pytest.skip(f"{name} is missing")
    return path
