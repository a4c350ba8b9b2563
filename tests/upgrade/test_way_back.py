"""A gateway goes back to the last version that writes the format before, and keeps its data.

That version is taken from the history of the repository; without the history the tests skip.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from deploy.local_cluster.server import Server
from headgate.engine.journal.records import VERSION
from tests.plain_streams import replies
from tests.processes.gateway import Gateway, failure_of
from tests.upgrade.story import EXPECTED, seen
from tests.upgrade.test_upgrade import FOLDERS, assert_within, copied

ROOT = Path(__file__).parents[2]
RUN_S_MAX = 60.0
FOLDER = FOLDERS[VERSION - 2]
STREAMS = ["orders", "orders.dead", "long", "large"]
"""Streams without delays, deadlines and a close, which Redis does not have."""

SOURCES = ["src", "app", "clients/python", "engine", "pipeline"]


def git(*words: str) -> bytes:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, check=True).stdout


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the root of imports of the last sources that write the format before."""
    place = tmp_path_factory.mktemp("earlier")
    line = f"^VERSION = {VERSION}$"
    folder = "engine/journal"  # its files change their names
    try:
        [first, *_] = git("log", "--reverse", f"-G{line}", "--format=%H", "--", folder).split()
        packed = git("archive", f"{first.decode()}^", *SOURCES)
    except (OSError, ValueError, subprocess.CalledProcessError) as problem:
        pytest.skip(f"the history is not here: {problem}")
    with tarfile.open(fileobj=io.BytesIO(packed)) as members:
        members.extractall(place, filter="data")
    text = "\n".join(path.read_text() for path in (place / folder).glob("*.py"))
    assert re.findall(r"^VERSION = (\d+)$", text, re.MULTILINE) == [str(VERSION - 1)]
    return place / "src"


@pytest.fixture
def redis(redis_7: Server) -> Iterator[Server]:
    """Return a server without the streams of the story."""
    replies(redis_7, [("DEL", *STREAMS)])
    yield redis_7
    replies(redis_7, [("DEL", *STREAMS)])


def ended(sources: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the command line of some sources."""
    return subprocess.run(
        [sys.executable, "-m", "headgate.app.cli", *map(str, words)],
        env={**os.environ, "PYTHONPATH": str(sources)},
        capture_output=True,
        text=True,
        timeout=RUN_S_MAX,
        check=False,
    )


def done(sources: Path, *words: str | Path) -> None:
    """Run a command that must end well."""
    outcome = ended(sources, *words)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


async def served_by(sources: Path, data: Path, entry: str | None = None) -> dict[str, Any]:
    """Let a gateway of some sources serve data; returns what a client sees of the story.

    Args:
        sources: the root of imports.
        data: the data directory.
        entry: the value of an entry to append first.
    """
    gateway = await Gateway.begin(data, variables={"PYTHONPATH": str(sources)})
    await gateway.until_greeting()
    with httpx.Client(base_url=gateway.url) as http:
        if entry is not None:
            fields = {"fields": {"n": entry}}
            appended = await asyncio.to_thread(http.post, "/v1/streams/orders/entries", json=fields)
            assert appended.is_success
        facts = await asyncio.to_thread(seen, http)
    await gateway.stop()
    return facts


def formats(data: Path) -> set[int]:
    """Return the formats of the files in a data directory."""
    return {int.from_bytes(path.read_bytes()[8:10], "little") for path in data.glob("*-0*")}


async def test_the_version_before_reads_what_no_later_one_has_served(
    earlier: Path, tmp_path: Path
) -> None:
    data = copied(FOLDER, tmp_path / "data")
    done(ROOT / "src", "check", "--data-dir", data)  # a look changes no file
    assert formats(data) == {VERSION - 1}
    facts = await served_by(earlier, data)
    assert_within(json.loads((FOLDER / EXPECTED).read_text()), facts, "")


async def test_a_backup_from_before_the_upgrade_is_the_way_back(
    earlier: Path, tmp_path: Path
) -> None:
    data = copied(FOLDER, tmp_path / "data")
    done(earlier, "backup", "--data-dir", data, tmp_path / "before.tar")
    await served_by(ROOT / "src", data, "behind the upgrade")
    done(earlier, "restore", tmp_path / "before.tar", "--data-dir", tmp_path / "restored")

    facts = await served_by(earlier, tmp_path / "restored")
    assert_within(json.loads((FOLDER / EXPECTED).read_text()), facts, "")


async def test_the_version_before_refuses_what_a_later_one_has_written(
    earlier: Path, tmp_path: Path
) -> None:
    data = copied(FOLDER, tmp_path / "data")
    await served_by(ROOT / "src", data)
    before = {path.name: path.read_bytes() for path in data.glob("*-0*")}
    outcome = await asyncio.to_thread(ended, earlier, "serve", "--data-dir", data, "--port", "0")

    assert outcome.returncode != 0
    assert f"its format has version {VERSION}" in failure_of(outcome.stderr)
    assert f"knows up to {VERSION - 1}: use a newer one" in failure_of(outcome.stderr)
    assert {path.name: path.read_bytes() for path in data.glob("*-0*")} == before


async def test_export_and_import_are_the_way_back_with_what_came_since(
    earlier: Path, redis: Server, tmp_path: Path
) -> None:
    data, back = copied(FOLDER, tmp_path / "data"), tmp_path / "back"
    now = await served_by(ROOT / "src", data, "behind the upgrade")
    assert VERSION in formats(data)
    only = [word for stream in STREAMS for word in ("--only", stream)]
    done(ROOT / "src", "export", "--from", data, "--to", redis.url, *only)
    done(earlier, "import", redis.url, "--to", back, *only)

    facts = await served_by(earlier, back)
    assert formats(back) == {VERSION - 1}
    entries = facts["/orders/entries?limit=1000"][1]["entries"]
    assert entries[-1]["fields"] == {"n": "behind the upgrade"}
    for path, [status, answer] in now.items():
        if "/entries" in path and path.split("/")[1] in STREAMS:
            assert facts[path] == [status, answer], path
    assert positions(facts) == positions(now)
    assert owners(facts) == owners(now)


def positions(facts: dict[str, Any]) -> dict[str, tuple[str, int]]:
    """Return the last id and the number of pending entries of each group."""
    [_, answer] = facts["/orders/groups"]
    return {group["name"]: (group["last_id"], group["pending"]) for group in answer["groups"]}


def owners(facts: dict[str, Any]) -> list[tuple[str, str, int]]:
    """Return the pending entries with their consumers and numbers of deliveries."""
    [_, answer] = facts["/orders/groups/billing/pending?limit=100"]
    return [(entry["id"], entry["consumer"], entry["deliveries"]) for entry in answer["pending"]]
