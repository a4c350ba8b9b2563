"""A trial of a release: its packages installed in a clean place, and used."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO

import httpx

from console.bundle import npm
from deploy.release.processes import NotReleased, run, variables_of_nobody

END_S_MAX = 30.0

_PIP = ("-m", "pip", "--disable-pip-version-check", "install", "--quiet")
_INSTALL = ("install", "--prefer-offline", "--ignore-scripts", "--no-audit", "--no-fund")
_IMPORT = "import headgate; headgate.Client, headgate.AsyncClient"
_PACKAGE = '{"private": true, "type": "module", "scripts": {"try": "node try.mjs"}}'
_PROGRAM = """\
import { createClient } from "@headgate/client";
import { useStream } from "@headgate/react";
if (typeof createClient !== "function" || typeof useStream !== "function") process.exit(1);
"""


def try_wheel(wheel: Path, pins: Path, version: str, folder: Path) -> None:
    """Install the wheel into a new environment, and start a gateway of it."""
    folder.mkdir()
    variables, programs = variables_of_nobody(), folder / "venv" / "bin"
    run(sys.executable, "-m", "venv", folder / "venv", folder=folder, variables=variables)
    needed = ("--constraint", pins, f"headgate[server] @ {wheel.as_uri()}")
    run(programs / "python", *_PIP, *needed, folder=folder, variables=variables)
    run(programs / "python", "-c", _IMPORT, folder=folder, variables=variables)
    printed = run(programs / "headgate", "--version", folder=folder, variables=variables)
    if version not in printed:
        raise NotReleased(f"`headgate --version` of {wheel.name} says {printed.strip()}.")
    _try_gateway(programs / "headgate", folder)


def try_tarballs(tarballs: list[Path], folder: Path) -> None:
    folder.mkdir()
    (folder / "package.json").write_text(_PACKAGE)
    (folder / "try.mjs").write_text(_PROGRAM)
    npm(*_INSTALL, *map(str, tarballs), folder=folder)
    npm("run", "try", folder=folder)


def _try_gateway(headgate: Path, folder: Path) -> None:
    command: list[str | Path] = [headgate, "serve", "--port", "0", "--data-dir", folder / "data"]
    with subprocess.Popen(
        command, cwd=folder, env=variables_of_nobody(), stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        try:
            url = _address(process.stderr)
            answer = httpx.get(f"{url}/healthz", timeout=END_S_MAX, trust_env=False)
            page = httpx.get(f"{url}/console/", timeout=END_S_MAX, trust_env=False)
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=END_S_MAX)
    if not (answer.is_success and page.is_success) or process.returncode:
        facts = f"/healthz {answer.status_code}, /console/ {page.status_code}"
        raise NotReleased(f"The gateway answers {facts}, and ends with {process.returncode}.")


def _address(log: IO[str]) -> str:
    """Return the gateway's URL from its log; raises NotReleased if the log ends before."""
    lines = []
    for line in log:
        lines.append(line)
        if address := re.search(r"Headgate is at (https?://[^\s,]+),", line):
            return address[1]
    raise NotReleased(f"The gateway does not start: {''.join(lines)}")
