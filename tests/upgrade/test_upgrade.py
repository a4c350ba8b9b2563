"""A gateway serves the data that earlier ones have written, and an earlier one refuses newer data.

`format-N` has the files of a data directory in format N of the files, and what clients saw. The
gateway that wrote them was the last before format N + 1; `story.py` says how they were made.
"""

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import httpx
import pytest

from headgate.engine.journal.records import VERSION
from tests.journals.records import newer
from tests.processes.gateway import Gateway, headgate
from tests.upgrade.story import EXPECTED, seen

FOLDERS = sorted(Path(__file__).parent.glob("format-*"))


def copied(folder: Path, to: Path) -> Path:
    """Copy a data directory, as a gateway writes to it."""
    to.mkdir()
    for path in folder.glob("*-0*"):
        shutil.copy(path, to)
    return to


def assert_within(before: Any, now: Any, where: str) -> None:
    """Check that all of what was said before is said now; there may be more."""
    if isinstance(before, dict):
        for name, value in before.items():
            assert name in now, f"{where}: {name} is missing"
            assert_within(value, now[name], f"{where}.{name}")
    elif isinstance(before, list):
        assert len(before) == len(now), where
        for index, (value, other) in enumerate(zip(before, now, strict=True)):
            assert_within(value, other, f"{where}[{index}]")
    else:
        assert before == now, where


def test_there_is_data_in_each_format() -> None:
    """After a change of the format: make the folder with the last gateway that wrote the old one.

    The newest format has a folder too, so that what is written now can be read later.
    """
    assert [folder.name for folder in FOLDERS] == [f"format-{n + 1}" for n in range(VERSION)]
    for number, folder in enumerate(FOLDERS, 1):
        for path in folder.glob("*-0*"):
            assert int.from_bytes(path.read_bytes()[8:10], "little") == number, path


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
async def test_a_gateway_serves_the_data_of_an_earlier_one(folder: Path, tmp_path: Path) -> None:
    data = copied(folder, tmp_path / "data")
    gateway = await Gateway.start(data)
    expected = json.loads((folder / EXPECTED).read_text())
    with httpx.Client(base_url=gateway.url) as http:
        now = await asyncio.to_thread(seen, http)
        for path, facts in expected.items():
            assert_within(facts, now[path], path)
        assert (await asyncio.to_thread(http.post, "/v1/admin/rewrite")).is_success
    await gateway.stop()

    again = await Gateway.start(data)
    with httpx.Client(base_url=again.url) as http:
        now = await asyncio.to_thread(seen, http)
    await again.stop()
    for path, facts in expected.items():
        assert_within(facts, now[path], path)


def test_newer_data_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    data = copied(FOLDERS[-1], tmp_path / "data")
    last = max(data.glob("journal-*"))
    last.write_bytes(newer(last.read_bytes()))
    before = {path.name: path.read_bytes() for path in data.glob("*-0*")}
    started = headgate("serve", "--data-dir", str(data), "--port", "0")

    assert started.returncode != 0
    assert f"its format has version {VERSION + 1}" in started.stderr
    assert f"knows up to {VERSION}: use a newer one" in started.stderr
    assert {path.name: path.read_bytes() for path in data.glob("*-0*")} == before
