"""The packages of a release: for pip and for npm."""

from __future__ import annotations

import sys
from pathlib import Path

from console.bundle import npm
from deploy.release.processes import run
from deploy.release.tree import Tree

_QUIET = ("--prefer-offline", "--ignore-scripts", "--no-audit", "--no-fund")
_PACK = ("pack", "--workspaces", "--ignore-scripts", "--pack-destination")


def make_wheel(tree: Tree, output: Path) -> None:
    """Make the archive of sources, and of that the wheel, with the console in both.

    The console comes first: the hook of the build makes a package without it, and says so.
    """
    run(sys.executable, "console/bundle.py", folder=tree.folder)
    build = (sys.executable, "-m", "build", "--no-isolation", "--outdir", output, tree.folder)
    run(*build, folder=tree.folder, variables=tree.variables)


def make_tarballs(tree: Tree, output: Path) -> None:
    """Make the packages of the clients in TypeScript."""
    workspace = tree.folder / "clients" / "typescript"
    npm("ci", *_QUIET, folder=workspace)
    npm("run", "build", folder=workspace)
    for path in workspace.glob("*/dist/**/*"):
        path.chmod(0o755 if path.is_dir() else 0o644)  # npm packs files as the umask made them
    npm(*_PACK, str(output), folder=workspace)
