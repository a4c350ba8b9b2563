"""The packages of a release: for pip and for npm."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from deploy.release.processes import run
from deploy.release.tree import Tree


def make_wheel(tree: Tree, output: Path) -> None:
    """Make the archive of sources, and of that the wheel, with the console in both.

    The console comes first: the hook of the build makes a package without it, and says so.
    """
    run(sys.executable, "console/bundle.py", folder=tree.folder)
    build = (sys.executable, "-m", "build", "--no-isolation", "--outdir", output, tree.folder)
    run(*build, folder=tree.folder, variables=tree.variables)


def take_tarballs(tree: Tree, output: Path) -> None:
    """Take the packages of the clients in TypeScript, which are built with the console."""
    for path in (tree.folder / "app" / "clients").glob("*.tgz"):
        shutil.copy(path, output)
