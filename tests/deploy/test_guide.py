"""Commands of deploy/README.md that need nothing but this machine do what the page says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deploy.test_manifests import DEPLOY
from tests.processes.gateway import ROOT

DATA = ROOT / "tests" / "upgrade"
"""Data directories that gateways have left."""


def commands_of(title: str) -> str:
    """Return the first commands below a title."""
    section = (
        (DEPLOY / "README.md").read_text().partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    )
    block = re.search(r"^```\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)
    assert block is not None
    return block[1]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with the data of a gateway, and the command."""
    newest = max(DATA.glob("format-*"))
    shutil.copytree(newest, tmp_path / "data", ignore=shutil.ignore_patterns("*.json"))
    command = tmp_path / "bin" / "headgate"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m headgate.app.cli "$@"\n')
    command.chmod(0o755)
    return tmp_path


def run(commands: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run commands as a user would."""
    return subprocess.run(
        ["bash", "-ec", commands],
        cwd=folder,
        env={
            **os.environ,
            "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
            "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
        },
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_backup_is_made_verified_and_restored(folder: Path) -> None:
    done = run(commands_of("Backups"), folder)
    assert done.returncode == 0, done.stderr
    printed = done.stdout.splitlines()

    assert re.fullmatch(r"\d+ records? in \d+ bytes, \d+ bytes copied", printed[0])
    assert printed[1].startswith("backups/orders is intact: ")
    counts = r"^restored contains .*: \d+ streams, [\d,]+ entries, \d+ pending$"
    assert re.search(counts, printed[2])
    names = [path.name for path in (folder / "data").glob("*-0*")]
    assert sorted(path.name for path in (folder / "restored").glob("*-0*")) == sorted(names)
    assert (folder / "orders.tar").stat().st_size > 0


def test_damage_is_repaired(folder: Path) -> None:
    last = max((folder / "data").glob("journal-*"))
    data = bytearray(last.read_bytes())
    data[len(data) // 2] ^= 1
    last.write_bytes(data)
    check, repair = commands_of("When files are damaged").splitlines()

    refused = run(check, folder)
    assert refused.returncode != 0
    assert "--repair keeps the data before it" in refused.stderr
    repaired = run(repair, folder)
    assert repaired.returncode == 0, repaired.stderr
    assert "damaged data moved to aside-" in repaired.stdout
    checked = run(check, folder)
    assert checked.returncode == 0, checked.stderr
    assert "records: " in checked.stdout
