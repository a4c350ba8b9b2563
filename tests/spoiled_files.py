"""Spoiled files: what may become of a file that an operator names."""

from __future__ import annotations

import os
from pathlib import Path


def remove(file: Path) -> None:
    file.unlink()


def make_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def make_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def make_loop(file: Path) -> None:
    file.unlink()
    file.symlink_to(file)


def write_gigabyte(file: Path) -> None:
    with file.open("r+b") as opened:
        opened.truncate(2**30)
