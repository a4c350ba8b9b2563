"""The sources of a release: the files that git tracks, in a folder of their own."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NamedTuple

from deploy.release.processes import NotReleased, run

ROOT = Path(__file__).parents[2]


class Tree(NamedTuple):
    folder: Path
    names: list[str]
    """Paths of all files in it, sorted."""

    time_s: int
    """Time of the last commit: everything in a release is of that time."""

    @property
    def variables(self) -> dict[str, str]:
        return {**os.environ, "SOURCE_DATE_EPOCH": str(self.time_s)}


def copy_tree(folder: Path, *, with_changes: bool = False) -> Tree:
    """Copy the tracked files; if they are not committed, `with_changes` must allow it."""
    changed = run("git", "status", "--porcelain", folder=ROOT)
    if changed and not with_changes:
        raise NotReleased(f"These files are not committed:\n{changed}")
    listed = run("git", "ls-files", "-z", folder=ROOT).split("\0")
    names = sorted(name for name in listed if os.path.lexists(ROOT / name) and name)
    for name in names:
        _copy(ROOT / name, folder / name)
    return Tree(folder, names, int(run("git", "log", "-1", "--format=%ct", folder=ROOT)))


def mode_of(path: Path) -> int:
    """Return a file's mode independent of the umask at its checkout."""
    return 0o755 if path.stat().st_mode & 0o100 else 0o644


def _copy(source: Path, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, to, follow_symlinks=False)
    if not source.is_symlink():
        to.chmod(mode_of(source))
