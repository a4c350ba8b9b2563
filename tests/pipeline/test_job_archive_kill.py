"""Exactly once is shown by kills: the driver of an archive dies, three times, at any moment."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from deltalake import DeltaTable

from pipeline.lake import Lake
from tests.pipeline.gateway import ROOT, Gateway

PATIENCE_S = 120
_ENTRIES = 2400


def start(gateway: Gateway, stream: str, lake: Path) -> subprocess.Popen[bytes]:
    """An archive in a process of its own, in small batches, one after the other."""
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "pipeline.cli", "archive", "--endpoint", gateway.url),
            *("--streams", stream, "--lake", str(lake), "--max-offsets", "200"),
        ],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # its JVM dies with it
    )


def held_count(lake: Path) -> int:
    if not DeltaTable.is_deltatable(str(lake)):
        return 0
    return sum(file.row_count for file in Lake(lake).files())


@pytest.mark.kill
def test_a_driver_that_is_killed_three_times_loses_and_doubles_nothing(
    gateway: Gateway, name: str, tmp_path: Path
) -> None:
    gateway.append(name, [{"n": str(number)} for number in range(_ENTRIES)])
    lake = tmp_path / "lake"
    for _ in range(3):
        before = held_count(lake)
        process = start(gateway, name, lake)
        deadline = time.monotonic() + PATIENCE_S
        while held_count(lake) < before + 400:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)  # a table is looked at, it signals nothing
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(PATIENCE_S)
    assert held_count(lake) < _ENTRIES

    assert start(gateway, name, lake).wait(PATIENCE_S) == 0

    found = [
        (row["id"], dict(row["fields"]))
        for batch in Lake(lake).arrow(name)
        for row in batch.to_pylist()
    ]
    wanted = [
        (entry["id"], {key: value.encode() for key, value in entry["fields"].items()})
        for entry in gateway.entries(name)
    ]
    assert found == wanted
