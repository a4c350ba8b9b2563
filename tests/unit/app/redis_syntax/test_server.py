"""The table of commands: words, descriptions and errors; a failed command leaves nothing behind."""

from __future__ import annotations

import gc

import pytest

from headgate.app.backends.embedded import EmbeddedBackend
from headgate.app.backends.remote import messages
from headgate.app.channels.channels import Channels
from headgate.app.redis_syntax.catalog import CATALOG, described_commands
from headgate.app.redis_syntax.command import error_text
from headgate.app.redis_syntax.runs import CommandRunner
from headgate.app.redis_syntax.server import ServerCommands
from headgate.app.resp.commands import DESCRIBED
from headgate.engine import errors
from headgate.engine.engine import Engine
from headgate.engine.errors import StreamError
from headgate.engine.journal.storage import MemoryStorage
from tests.unit.app.backends.remote_backend.test_messages import made
from tests.unit.app.redis_syntax.console import Console

SERVER = ServerCommands(EmbeddedBackend(Engine(MemoryStorage(0))))
SERVER.attach(channels=Channels())
SUBCOMMANDS = SERVER.subcommands_by_name


NEWER = {
    "xdelex": -5,
    "xackdel": -6,
    "xnack": -7,
    "xcfgset": -2,
    "xidmprecord": 5,
    "waitaof": 4,
    "command|getkeys": -3,
    "command|getkeysandflags": -3,
}
"""Arities that Redis 7.0 has not; `tests/model/server_commands` compares the others with it."""


def test_what_is_newer_has_the_arity_of_redis() -> None:
    assert {name: CATALOG[name].arity for name in NEWER} == NEWER


def test_every_command_is_described() -> None:
    described = {**described_commands(SERVER.commands_by_name, SUBCOMMANDS), **DESCRIBED}
    for name, each in described.items():
        assert each.summary.endswith("."), name
        assert bool(each.arguments) == bool(each.usage), name
    assert set(described) == set(CATALOG)


@pytest.mark.parametrize(
    "line", ["xlen", "XLEN s t", "xadd s * a", "Xgroup Create s g", "XINFO help x"]
)
async def test_another_number_of_words_is_refused(line: str) -> None:
    words = line.lower().split()
    name = "|".join(words[: 2 if words[0] in ("xgroup", "xinfo") else 1])
    assert await Console().say(line) == f"ERR wrong number of arguments for '{name}' command"


@pytest.mark.parametrize("name", sorted(name.decode() for name in SUBCOMMANDS))
async def test_help_names_every_subcommand(name: str) -> None:
    title, *lines = await Console().say(f"{name.lower()} help")

    assert title.startswith(name)
    named = {line.split()[0].encode() for line in lines[0::2]} - {b"(no"}
    assert named >= set(SUBCOMMANDS[name.encode()])


CODES = {
    *("ERR", "BUSYGROUP", "NOGROUP", "OOM", "MISCONF", "CLUSTERDOWN", "CROSSSLOT", "WRONGTYPE"),
    "READONLY",
}
GROUPS = {errors.StreamError, errors.NotFound, errors.Conflict}


@pytest.mark.parametrize("kind", messages.ERRORS.values(), ids=list(messages.ERRORS))
def test_only_what_redis_says_begins_with_a_code(kind: type[errors.StreamError]) -> None:
    if kind in GROUPS or issubclass(kind, errors.Corrupt):
        return
    error = made(kind)
    code, _, text = error_text(error).partition(" ")
    assert code in CODES
    assert text
    assert str(error).split()[0] not in CODES


async def test_errors_are_counted_by_the_code_that_is_sent() -> None:
    console = Console()
    console.engine.drain()
    refused = await console.say("XREAD BLOCK 0 STREAMS s 0")
    assert refused == "ERR the gateway is shutting down"
    assert "errorstat_ERR:count=1" in await console.say("INFO errorstats")


def error_count() -> int:
    """Return how many errors of the engine are alive."""
    return sum(isinstance(each, StreamError) for each in gc.get_objects())


@pytest.mark.parametrize(
    "line",
    [
        *("XADD s 0-0 a 1", "XSETID missing 1-1", "XGROUP CREATE missing g 0"),
        *("XCFGSET missing NONSENSE 1", "XREADGROUP GROUP g c STREAMS missing >"),
        "XDEL s nonsense",
    ],
)
async def test_an_error_is_freed_when_it_is_answered(line: str) -> None:
    runner = CommandRunner(EmbeddedBackend(Engine(MemoryStorage())))
    await runner.run([b"XADD", b"s", b"1-1", b"a", b"1"])
    words = [word.encode() for word in line.split()]
    gc.collect()
    count_before = error_count()
    gc.disable()
    try:
        with pytest.raises(StreamError):
            await runner.run(words)
        await runner.run_all([words])
        count = error_count()
    finally:
        gc.enable()

    assert count == count_before
