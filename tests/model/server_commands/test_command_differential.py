"""COMMAND describes commands as a real redis-server does, but for the prose.

Where the server's version (Debian's 7.0) differs from the one we follow (8.10), one of the lists
below has the difference.
"""

from __future__ import annotations

from typing import Any

import pytest

from headgate.app.backends.embedded import EmbeddedBackend
from headgate.app.redis_syntax.administration.information import ConnectionFacts, ServerSettings
from headgate.app.redis_syntax.runs import CommandRunner
from headgate.app.redis_syntax.server import ServerCommands
from headgate.app.resp.commands import DESCRIBED
from headgate.engine.engine import Engine
from headgate.engine.journal.storage import MemoryStorage
from tests.model.own_replies import own_reply
from tests.model.redis_server import Redis, lines, words

NEWER_ARGUMENTS = {
    "xadd": "KEEPREF, DELREF, ACKED; IDMP, IDMPAUTO",
    "xtrim": "KEEPREF, DELREF, ACKED",
    "xread": "MAXCOUNT, MAXSIZE",
    "xreadgroup": "CLAIM; MAXCOUNT, MAXSIZE",
    "client|kill": "MAXAGE; and the address alone is not said to be deprecated",
    "command|getkeys": "7.0 describes no argument",
    "command|getkeysandflags": "7.0 describes no argument",
}
"""Commands whose arguments are described otherwise, and why."""

NEWER_ARITY = {
    "command|getkeys": "since 7.2 a command without arguments may be asked about",
    "command|getkeysandflags": "likewise",
}

ASKED = lines(
    "xadd a * b c / xadd a / XREAD STREAMS a b 1 2 / xread count 1 streams a b 1 / "
    "xread count 1 stream a / xread count 1 streams / xread count streams streams a 0 / "
    "xreadgroup group g c count 1 streams a b > > / xreadgroup group streams c streams a b > > / "
    "xgroup create a b c / xgroup foo a b / xgroup help / xinfo stream a full / xinfo help / "
    "del a b c / rename a b / watch a b c / xautoclaim s g c 0 0 / nope a b / echo a / "
    "scan 0 match / exists a a"
)

CONTAINERS = {"memory", "object"}

OF_KEYS = ["copy a b", "restore a 0 b", "memory usage a", "object encoding a"]


SERVER_COMMANDS = lines(
    "COMMAND INFO nope / COMMAND DOCS nope / COMMAND LIST FILTERBY MODULE x / "
    "COMMAND LIST FILTERBY ACLCAT nope / COMMAND LIST FILTERBY FOO x / COMMAND LIST FOO / "
    "COMMAND COUNT 1 / COMMAND FOO / COMMAND INFO xlen XRANGE / CONFIG FOO / CONFIG GET / "
    "CONFIG SET a / CONFIG SET a b c / CONFIG SET nope 1 / "
    "CONFIG SET slowlog-max-len 1 slowlog-max-len 2 / CONFIG SET databases 2 / CONFIG GET save / "
    "CONFIG GET cluster-enabled / LATENCY LATEST / LATENCY FOO / SLOWLOG GET / SLOWLOG GET -2 / "
    "SLOWLOG GET x / SLOWLOG GET 1 2 / SLOWLOG LEN / SLOWLOG RESET / SLOWLOG / MEMORY FOO / "
    "ACL FOO / WAIT 0 1 / WAIT x 0 / WAIT 1 -1 / WAIT 1 x / FUNCTION FLUSH / "
    "FUNCTION FLUSH async / FUNCTION FLUSH NOW / FUNCTION FOO / SCRIPT FLUSH SYNC / "
    "SCRIPT FLUSH NOW / SCRIPT FOO / CONFIG RESETSTAT / BGSAVE FOO / BGREWRITEAOF 1 / FOO / "
    "FOO a b"
)


@pytest.fixture
def runner() -> CommandRunner:
    """Return our commands, with those of connections."""
    backend = EmbeddedBackend(Engine(MemoryStorage(0)))
    server = ServerCommands(backend)
    server.attach(ServerSettings(), ConnectionFacts, DESCRIBED)
    return CommandRunner(backend, None, server)


async def ours(runner: CommandRunner, line: str) -> Any:
    return await own_reply(runner, words(*line.split()))


def commands_by_name(reply: list[Any]) -> dict[str, list[Any]]:
    """Return the descriptions of COMMAND INFO for commands and subcommands."""
    result = {}
    for command in reply:
        result[command[0].decode()] = command
        result |= commands_by_name(command[9])
    return result


def pairs(flat: list[Any]) -> dict[str, Any]:
    return {name.decode(): value for name, value in zip(flat[::2], flat[1::2], strict=True)}


def documents_by_name(flat: list[Any]) -> dict[str, dict[str, Any]]:
    """Return the descriptions of COMMAND DOCS for commands and subcommands."""
    result = {}
    for name, facts in pairs(flat).items():
        result[name] = pairs(facts)
        result |= documents_by_name(result[name].get("subcommands", []))
    return result


def facts_of(command: list[Any]) -> dict[str, Any]:
    """Return the comparable facts of COMMAND INFO. The notes on keys are prose."""
    specs = []
    for spec in map(pairs, command[8]):
        spec.pop("notes", None)
        specs.append(spec)
    return {
        "arity": command[1],
        "flags": command[2],
        "place": command[3:6],
        "categories": command[6],
        "tips": command[7],
        "keys": specs,
    }


async def test_commands_have_the_facts_of_redis(redis: Redis, runner: CommandRunner) -> None:
    theirs = commands_by_name(redis.run(words("COMMAND")))
    own = commands_by_name(await ours(runner, "COMMAND"))
    both = own.keys() & theirs.keys()
    assert len(both) > 100
    for name in sorted(both):
        expected = facts_of(theirs[name])
        if name in NEWER_ARITY:
            expected["arity"] = own[name][1]
        assert facts_of(own[name]) == expected, name


async def test_arguments_are_those_of_redis(redis: Redis, runner: CommandRunner) -> None:
    theirs = documents_by_name(redis.run(words("COMMAND", "DOCS")))
    own = documents_by_name(await ours(runner, "COMMAND DOCS"))
    differing = set()
    for name in sorted(own.keys() & theirs.keys()):
        expected, described = theirs[name], own[name]
        assert [described[key] for key in ("since", "group")] == [
            expected[key] for key in ("since", "group")
        ], name
        assert described["summary"] != expected["summary"]
        if described.get("arguments") != expected.get("arguments"):
            differing.add(name)
    assert differing == NEWER_ARGUMENTS.keys()


async def test_keys_among_words_are_those_of_redis(redis: Redis, runner: CommandRunner) -> None:
    own_names = {name.decode() for name in await ours(runner, "COMMAND LIST")}
    for line in ASKED + OF_KEYS:
        name, below = line.split()[:2]
        if line in OF_KEYS and own_names.isdisjoint({name, f"{name}|{below}"} - CONTAINERS):
            continue  # it is not there yet
        for name in ("GETKEYS", "GETKEYSANDFLAGS"):
            asked = f"COMMAND {name} {line}"
            assert await ours(runner, asked) == redis.run(words(*asked.split())), asked


async def test_server_commands_reply_as_redis_does(redis: Redis, runner: CommandRunner) -> None:
    await ours(runner, "CONFIG SET slowlog-log-slower-than -1")  # as theirs: nothing is slow
    for line in SERVER_COMMANDS:
        own, theirs = await ours(runner, line), redis.run(words(*line.split()))
        if line == "COMMAND INFO xlen XRANGE":
            own, theirs = ([facts_of(each) for each in reply] for reply in (own, theirs))
        assert (line, own) == (line, theirs)


async def test_what_is_not_here_is_unknown(redis: Redis, runner: CommandRunner) -> None:
    unknown = redis.run(words("FOO", "a", "b"))
    for name in ("GET", "LPUSH", "ZADD", "ROLE", "CLUSTER", "MODULE", "SHUTDOWN"):
        assert await ours(runner, f"{name} a b") == unknown.replace("FOO", name)
