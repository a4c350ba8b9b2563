"""The packages of a release: for pip and for npm."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from deploy.release.processes import run
from deploy.release.tree import Tree


def make_wheel(tree: Tree, output: Path) -> None:
    """Make the source archive, and from it the wheel, with the console in both.

    The console is built first: without it the build hook makes a package that lacks it, and warns.
    """
    run(sys.executable, "console/bundle.py", folder=tree.folder)
    build = (sys.executable, "-m", "build", "--no-isolation", "--outdir", output, tree.folder)
    run(*build, folder=tree.folder, variables=tree.variables)


def take_tarballs(tree: Tree, output: Path) -> None:
    for path in (tree.folder / "app" / "clients").glob("*.tgz"):
        shutil.copy(path, output)
