"""The packages of `clients/typescript`, built once, and programs that use them."""

import fcntl
import functools
import re
import shutil
import subprocess
from pathlib import Path

from tests.sdk.workshop import FOLDER, ROOT, RUN_S_MAX, node_modules, tool

WORKSPACE = ROOT / "clients" / "typescript"
SESSIONS = FOLDER / "sessions" / "typescript"
APP = SESSIONS / "app"
README = WORKSPACE / "README.md"


@functools.cache
def packages() -> Path:
    """Return the folder of installed packages, ours built among them."""
    installed = node_modules(WORKSPACE)
    with (WORKSPACE / "tsconfig.json").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # other tests, in other processes, want it too
        _run(tool("node"), installed / ".bin" / "tsc", "--build", folder=WORKSPACE)
    return installed


def _run(*command: str | Path, folder: Path) -> None:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=RUN_S_MAX, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def snippets(page: Path, kind: str) -> list[str]:
    """Return the programs of a page."""
    return re.findall(rf"^```{kind}\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)


def program_folder(folder: Path) -> Path:
    """Return a new folder whose modules may import our packages, with the sessions in it."""
    folder.mkdir()
    (folder / "node_modules").symlink_to(packages())
    (folder / "package.json").write_text('{"type": "module"}')
    for file in SESSIONS.glob("*.mjs"):
        shutil.copy(file, folder)
    return folder


def app_folder(folder: Path) -> Path:
    """Return a new folder with an app that has installed what `npm pack` makes of our packages."""
    (folder / "packed").mkdir()
    (folder / "node_modules").symlink_to(packages())  # of an app, what it uses besides
    app = folder / "app"
    shutil.copytree(APP, app)
    npm = tool("npm")
    pack = ("pack", "--workspaces", "--ignore-scripts", "--pack-destination")
    _run(npm, *pack, folder / "packed", folder=WORKSPACE)
    packed = sorted((folder / "packed").glob("*.tgz"))
    offline = ("install", "--offline", "--legacy-peer-deps", "--no-audit", "--no-fund")
    _run(npm, *offline, *packed, folder=app)
    return app
