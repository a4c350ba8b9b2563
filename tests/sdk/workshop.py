"""A workshop: the tools of other languages, found and run."""

import asyncio
import fcntl
import functools
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
ROOT = FOLDER.parent.parent
NPM = FOLDER / "npm"
RUN_S_MAX = 180.0


def tool(name: str) -> str:
    """Return the path of a program; beside the interpreter, or on the path.

    A program that is missing skips the test on a laptop and fails it in CI.
    """
    path = shutil.which(name, path=_search_path())
    if path is None:
        missing(name)
    return str(path)


def _search_path() -> str:
    return f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"


def missing(name: str) -> None:
    """Skip the test for want of a program; fail it in CI."""
    if "CI" in os.environ:
        pytest.fail(f"{name} is missing")
    pytest.skip(f"{name} is not installed")


@functools.cache
def node_modules(folder: Path = NPM) -> Path:
    """Return the packages of a lock file, installed once for as long as the file stays the same."""
    tool("node")
    npm = tool("npm")
    installed = folder / "node_modules"
    stamp = installed / ".installed"
    lock = hashlib.sha256((folder / "package-lock.json").read_bytes()).hexdigest()
    with (folder / "package.json").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # other tests, in other processes, want it too
        if not stamp.exists() or stamp.read_text() != lock:
            _install(npm, folder)
            stamp.write_text(lock)
    return installed


def _install(npm: str, folder: Path) -> None:
    quiet = ("--prefer-offline", "--ignore-scripts", "--no-audit", "--no-fund")
    done = subprocess.run(
        [npm, "ci", *quiet],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=RUN_S_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def npm_tool(name: str) -> str:
    """Return the path of a program in an npm package."""
    return str(node_modules() / ".bin" / name)


async def output_of(
    *command: str | Path, folder: Path, variables: Mapping[str, str] | None = None
) -> str:
    """Run a program to its end, without an error; returns all that it said."""
    process = await asyncio.create_subprocess_exec(
        *map(str, command),
        cwd=folder,
        env={**os.environ, "PATH": _search_path(), "NO_COLOR": "1", **(variables or {})},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(RUN_S_MAX):
            output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    text = output.decode(errors="replace")
    assert process.returncode == 0, text
    return text
