"""The table of commands: the number of words of each, and errors for others."""

from __future__ import annotations

import pytest

from headgate.app.backends.embedded import EmbeddedBackend
from headgate.app.redis_syntax.catalog.described import described_commands
from headgate.app.redis_syntax.server import CATALOG, ServerCommands
from headgate.app.resp.commands import DESCRIBED
from headgate.engine.engine import Engine
from headgate.engine.journal.storage import MemoryStorage
from tests.unit.app.redis_syntax.console import Console

# As Redis has it: the name counts, and a negative number is the least there may be.
ARITIES = {
    "XADD": -5,
    "XLEN": 2,
    "XRANGE": -4,
    "XREVRANGE": -4,
    "XREAD": -4,
    "XREADGROUP": -7,
    "XDEL": -3,
    "XDELEX": -5,
    "XACK": -4,
    "XACKDEL": -6,
    "XNACK": -7,
    "XTRIM": -4,
    "XPENDING": -3,
    "XCLAIM": -6,
    "XAUTOCLAIM": -6,
    "XSETID": -3,
    "XCFGSET": -2,
    "XIDMPRECORD": 5,
    "XGROUP": -2,
    "XGROUP CREATE": -5,
    "XGROUP SETID": -5,
    "XGROUP DESTROY": 4,
    "XGROUP CREATECONSUMER": 5,
    "XGROUP DELCONSUMER": 5,
    "XINFO": -2,
    "XINFO STREAM": -3,
    "XINFO GROUPS": 3,
    "XINFO CONSUMERS": 4,
    "PING": -1,
    "ECHO": 2,
    "TIME": 1,
    "DEL": -2,
    "UNLINK": -2,
    "EXISTS": -2,
    "TYPE": 2,
    "KEYS": 2,
    "SCAN": -2,
    "DBSIZE": 1,
    "RENAME": 3,
    "RENAMENX": 3,
    "COPY": -3,
    "DUMP": 2,
    "RESTORE": -4,
    "MEMORY USAGE": -3,
    "OBJECT": -2,
    "OBJECT ENCODING": 3,
    "OBJECT FREQ": 3,
    "OBJECT IDLETIME": 3,
    "OBJECT REFCOUNT": 3,
    "OBJECT HELP": 2,
    "EXPIRE": -3,
    "PEXPIRE": -3,
    "EXPIREAT": -3,
    "PEXPIREAT": -3,
    "EXPIRETIME": 2,
    "PEXPIRETIME": 2,
    "TOUCH": -2,
    "RANDOMKEY": 1,
    "TTL": 2,
    "PTTL": 2,
    "PERSIST": 2,
    "FLUSHALL": -1,
    "FLUSHDB": -1,
    "XGROUP HELP": 2,
    "XINFO HELP": 2,
    "INFO": -1,
    "COMMAND": -1,
    "COMMAND COUNT": 2,
    "COMMAND LIST": -2,
    "COMMAND INFO": -2,
    "COMMAND DOCS": -2,
    "COMMAND GETKEYS": -3,
    "COMMAND GETKEYSANDFLAGS": -3,
    "COMMAND HELP": 2,
    "CONFIG": -2,
    "CONFIG GET": -3,
    "CONFIG SET": -4,
    "CONFIG RESETSTAT": 2,
    "CONFIG HELP": 2,
    "ACL": -2,
    "ACL WHOAMI": 2,
    "ACL HELP": 2,
    "FUNCTION": -2,
    "FUNCTION FLUSH": -2,
    "FUNCTION HELP": 2,
    "SCRIPT": -2,
    "SCRIPT FLUSH": -2,
    "SCRIPT HELP": 2,
    "LATENCY": -2,
    "LATENCY LATEST": 2,
    "LATENCY HELP": 2,
    "SLOWLOG": -2,
    "SLOWLOG GET": -2,
    "SLOWLOG LEN": 2,
    "SLOWLOG RESET": 2,
    "SLOWLOG HELP": 2,
    "MEMORY": -2,
    "MEMORY HELP": 2,
    "WAIT": 3,
    "WAITAOF": 4,
    "SAVE": 1,
    "BGSAVE": -1,
    "BGREWRITEAOF": 1,
    "LASTSAVE": 1,
}

SERVER = ServerCommands(EmbeddedBackend(Engine(MemoryStorage(0))))
SUBCOMMANDS = SERVER.subcommands_by_name


def test_every_command_has_its_arity_here() -> None:
    names = {name.decode() for name in SERVER.commands_by_name | SUBCOMMANDS}
    names |= {
        f"{name.decode()} {sub.decode()}" for name in SUBCOMMANDS for sub in SUBCOMMANDS[name]
    }
    assert names == ARITIES.keys()


def test_every_command_is_described() -> None:
    described = described_commands(SERVER.commands_by_name, SUBCOMMANDS, CATALOG)
    for command in [*described.values(), *DESCRIBED.values()]:
        for each in command.walk():
            assert each.description.summary.endswith("."), each.name
            assert bool(each.description.arguments) == bool(each.description.usage), each.name
    assert {each.name for command in described.values() for each in command.walk()} == set(CATALOG)


def with_words(name: str, count: int) -> tuple[str, str]:
    """Return a line of so many words, and the name an error gives the command."""
    words = name.split()
    return " ".join([*words, *["1"] * (count - len(words))]), "|".join(words).lower()


TOO_FEW = [
    with_words(n, abs(words_min) - 1)
    for n, words_min in ARITIES.items()
    if n.count(" ") + 1 < abs(words_min) and n != "WAIT"  # which the console takes for itself
]
TOO_MANY = [
    with_words(name, exact + 1) for name, exact in ARITIES.items() if exact > 0 and name != "WAIT"
]


@pytest.mark.parametrize(
    ("line", "name"), [(line, name) for line, name in TOO_FEW + TOO_MANY if name != "wait"]
)
async def test_another_number_of_words_is_refused(line: str, name: str) -> None:
    text = f"ERR wrong number of arguments for '{name}' command"
    assert await Console().say(line) == text
    assert await Console().say(line.lower()) == text


@pytest.mark.parametrize("name", ["XGROUP", "XINFO", "CONFIG", "COMMAND", "ACL", "OBJECT"])
async def test_an_unknown_subcommand_is_named_as_it_was_written(name: str) -> None:
    text = f"ERR unknown subcommand 'FoO'. Try {name} HELP."
    assert await Console().say(f"{name} FoO") == text
    assert await Console().say(f"{name.lower()} FoO a b c d") == text


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("XGROUP CREATE s g $ NOW", "for 'CREATE'. Try XGROUP HELP."),
        ("XGROUP create s g $ ENTRIESREAD", "for 'create'. Try XGROUP HELP."),
        ("XGROUP SETID s g $ MKSTREAM", "for 'SETID'. Try XGROUP HELP."),
        ("XINFO STREAM s FULL COUNT", "for 'STREAM'. Try XINFO HELP."),
        ("XINFO STREAM s FULL LIMIT 1", "for 'STREAM'. Try XINFO HELP."),
        ("XINFO STREAM s HALF", "for 'STREAM'. Try XINFO HELP."),
    ],
)
async def test_a_subcommand_with_other_options_is_refused(line: str, text: str) -> None:
    console = Console()
    await console.say("XADD s 1 a b")
    assert await console.say(line) == f"ERR unknown subcommand or wrong number of arguments {text}"


async def test_an_unknown_command_is_shown_with_its_arguments() -> None:
    text = "ERR unknown command 'xFOO', with args beginning with: 'a' 'b' "
    assert await Console().say("xFOO a b") == text
    assert await Console().say('""') == "ERR unknown command '', with args beginning with: "


@pytest.mark.parametrize("name", sorted(name.decode() for name in SUBCOMMANDS))
async def test_help_names_every_subcommand(name: str) -> None:
    title, *lines = await Console().say(f"{name.lower()} help")

    assert title.startswith(name)
    named = {line.split()[0].encode() for line in lines[0::2]} - {b"(no"}
    assert named >= set(SUBCOMMANDS[name.encode()])
