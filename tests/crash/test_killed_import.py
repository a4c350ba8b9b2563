"""An import that is killed in the middle goes on where it was.

HEADGATE_TEST_ENTRIES says how many entries the server has (by hand: 1000000). They are in three
streams with 20 groups, and a tenth as many are pending.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from deploy.local_cluster.keeper import Keeper
from deploy.local_cluster.server import Server
from deploy.local_cluster.waiting import until
from tests.api.commands.command_line import HEADGATE, environment
from tests.plain_streams import assert_same, of_directory, replies
from tests.servers.programs import redis_server

ENTRIES = int(os.environ.get("HEADGATE_TEST_ENTRIES", "20000"))
GROUPS = {"large": 8, "middle": 7, "small": 5}
PARTS = {"large": 0.6, "middle": 0.3, "small": 0.1}
AT_ONCE = 5_000
FIRST_MS = 1_700_000_000_000

BEGUN = 0.15
"""The share of the entries after which the first import is killed."""

JOURNAL_BYTES = 70
"""Size of an entry in the journal."""

ATTEMPTS_MAX = 5
"""A kill may come when nothing is copied, or everything."""


@pytest.fixture(scope="module")
def server(keeper: Keeper, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Run a server with the entries."""
    folder = tmp_path_factory.mktemp("full")
    server = Server(redis_server(), folder, keeper, options={"save": "", "appendonly": "no"})
    server.start()
    for stream in PARTS:
        fill(server, stream)
    yield server
    server.stop()


def fill(server: Server, stream: str) -> None:
    count = int(ENTRIES * PARTS[stream])
    for begin in range(0, count, AT_ONCE):
        numbers = range(begin, min(begin + AT_ONCE, count))
        replies(
            server,
            [("XADD", stream, f"{1_700_000_000_000 + n}-{n % 3}", *fields(n)) for n in numbers],
        )
    for number in range(GROUPS[stream]):
        replies(server, [("XGROUP", "CREATE", stream, f"group {number}", "0")])
        take(server, stream, number, count)
    replies(
        server, [("XDEL", stream, f"{1_700_000_000_000 + n}-{n % 3}") for n in range(7, count, 997)]
    )


def fields(number: int) -> tuple[str | int, ...]:
    return (
        "user",
        f"user-{number % 1000}",
        "amount",
        number * 7 % 100_000,
        "note",
        "x" * (number % 40),
    )


def take(server: Server, stream: str, number: int, count: int) -> None:
    """Let three consumers of a group read its share of what is pending."""
    left = min(ENTRIES // 10 // 20, count)
    while left:
        taken = min(left, 900)
        words = "XREADGROUP", "GROUP", f"group {number}", f"consumer {left % 3}", "COUNT", taken
        replies(server, [(*words, "STREAMS", stream, ">")])
        left -= taken


def bring(source: str, place: Path) -> subprocess.Popen[bytes]:
    words = [*HEADGATE, "import", source, "--to", str(place), "--json"]
    return subprocess.Popen(words, env=environment(""), stdout=subprocess.PIPE)


def kill_in_the_middle(source: str, place: Path) -> None:
    """Begin an import, and kill it when the journal has a part of the entries."""
    with bring(source, place) as process:
        until(lambda: size_of(place) > BEGUN * JOURNAL_BYTES * ENTRIES, 120, "a part is there")
        process.kill()
        process.communicate()


def brought(source: str, place: Path) -> int:
    """Import to the end, and return how many entries were left to do."""
    with bring(source, place) as process:
        output, _ = process.communicate(timeout=600)
    assert process.returncode == 0, output
    summary = json.loads(output.splitlines()[-1])
    assert summary["in_force"]
    return int(summary["entries"])


def size_of(place: Path) -> int:
    return sum(path.stat().st_size for path in place.glob("journal-*"))


def assert_all_there(server: Server, place: Path) -> None:
    """Compare everything with what the server says itself: entries, then each group."""
    commands: list[Sequence[str | int]] = []
    commands += [("XINFO", "STREAM", stream, "FULL", "COUNT", 1) for stream in PARTS]
    for stream, part in PARTS.items():
        for begin in range(0, int(ENTRIES * part), AT_ONCE):
            ends = FIRST_MS + begin, f"{FIRST_MS + begin + AT_ONCE - 1}-9"
            commands.append(("XRANGE", stream, *ends))
        for number in range(GROUPS[stream]):
            words = "XPENDING", stream, f"group {number}", "-", "+", 5_000
            commands += [words, words[:3]]
    there, here = replies(server, commands), of_directory(place, commands)
    for command, theirs, ours in zip(commands, there, here, strict=True):
        if command[3:4] == ("-",):  # how long ago grows meanwhile; XINFO has the time
            for row in (*theirs, *ours):
                del row[2]
        assert_same(theirs, ours)


@pytest.mark.parametrize("kind", ["server", "file"])
def test_it_goes_on_after_a_kill(server: Server, tmp_path: Path, kind: str) -> None:
    source = server.url
    if kind == "file":
        replies(server, [("SAVE",)])
        source = str(server.folder / "dump.rdb")
    for attempt in range(ATTEMPTS_MAX):
        place = tmp_path / str(attempt)
        kill_in_the_middle(source, place)
        left = brought(source, place)
        assert_all_there(server, place)
        if 0 < left < ENTRIES * 0.95:
            break
    else:
        pytest.fail("each kill came too early or too late")
