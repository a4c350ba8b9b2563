"""Every Redis command x every verb x whose stream, group and consumer it is, in each way to run it.

What a refusal says is Redis's: NOPERM.
"""

from typing import Any

import httpx
import pytest

from headgate.app.auth.grants import Verb
from headgate.app.backends.embedded import EmbeddedBackend
from headgate.app.redis_syntax.server import ServerCommands
from headgate.engine.engine import Engine
from headgate.engine.journal.storage import MemoryStorage
from tests.api.auth.matrix import MINE, About, Case, cases
from tests.api.auth.secured import Secured, position

pytestmark = pytest.mark.asyncio(loop_scope="module")

WORDS = {
    "XADD": "{s} * f v",
    "XTRIM": "{s} MAXLEN 1000",
    "XLEN": "{s}",
    "XRANGE": "{s} - +",
    "XREVRANGE": "{s} + -",
    "XREAD": "STREAMS {s} 0",
    "XDEL": "{s} 1-1",
    "XDELEX": "{s} IDS 1 1-1",
    "XSETID": "{s} 9999999999999-0",
    "XCFGSET": "{s} IDMP-DURATION 60",
    "XIDMPRECORD": "{s} p i 1-1",
    "XREADGROUP": "GROUP {g} {c} STREAMS {s} >",
    "XACK": "{s} {g} 1-1",
    "XACKDEL": "{s} {g} KEEPREF IDS 1 1-1",
    "XNACK": "{s} {g} FAIL IDS 1 1-1",
    "XPENDING": "{s} {g} - + 10 {c}",
    "XCLAIM": "{s} {g} {c} 0 1-1",
    "XAUTOCLAIM": "{s} {g} {c} 0 0",
    "XGROUP CREATE": "{s} {g} $",
    "XGROUP SETID": "{s} {g} $",
    "XGROUP DESTROY": "{s} {g}",
    "XGROUP CREATECONSUMER": "{s} {g} {c}",
    "XGROUP DELCONSUMER": "{s} {g} {c}",
    "XGROUP HELP": "",
    "XINFO STREAM": "{s}",
    "XINFO GROUPS": "{s}",
    "XINFO CONSUMERS": "{s} {g}",
    "XINFO HELP": "",
    "PING": "",
    "ECHO": "hello",
    "TIME": "",
    "DEL": "{s}",
    "UNLINK": "{s}",
    "EXISTS": "{s}",
    "TYPE": "{s}",
    "KEYS": "*",
    "SCAN": "0",
    "DBSIZE": "",
    "RENAME": "{s} {s}b",
    "RENAMENX": "{s} {s}b",
    "COPY": "{s} {s}b",
    "DUMP": "{s}",
    "RESTORE": "{s} 0 payload",
    "OBJECT ENCODING": "{s}",
    "OBJECT FREQ": "{s}",
    "OBJECT IDLETIME": "{s}",
    "OBJECT REFCOUNT": "{s}",
    "OBJECT HELP": "",
    "EXPIRE": "{s} 1000",
    "PEXPIRE": "{s} 1000000",
    "EXPIREAT": "{s} 99999999999",
    "PEXPIREAT": "{s} 99999999999999",
    "EXPIRETIME": "{s}",
    "PEXPIRETIME": "{s}",
    "TOUCH": "{s}",
    "RANDOMKEY": "",
    "TTL": "{s}",
    "PTTL": "{s}",
    "PERSIST": "{s}",
    "FLUSHALL": "",
    "FLUSHDB": "",
    "INFO": "",
    "COMMAND": "",
    "COMMAND COUNT": "",
    "COMMAND LIST": "",
    "COMMAND INFO": "xadd",
    "COMMAND DOCS": "xadd",
    "COMMAND GETKEYS": "xlen s",
    "COMMAND GETKEYSANDFLAGS": "xlen s",
    "COMMAND HELP": "",
    "CONFIG GET": "save",
    "CONFIG SET": "slowlog-max-len 10",
    "CONFIG RESETSTAT": "",
    "CONFIG HELP": "",
    "ACL WHOAMI": "",
    "FUNCTION FLUSH": "",
    "FUNCTION HELP": "",
    "SCRIPT FLUSH": "",
    "SCRIPT HELP": "",
    "ACL HELP": "",
    "LATENCY LATEST": "",
    "LATENCY HELP": "",
    "SLOWLOG GET": "",
    "SLOWLOG LEN": "",
    "SLOWLOG RESET": "",
    "SLOWLOG HELP": "",
    "MEMORY USAGE": "{s}",
    "MEMORY HELP": "",
    "WAIT": "0 0",
    "WAITAOF": "0 0 0",
    "LASTSAVE": "",
}
"""Words behind the name of each command: {s} a stream, {g} a group, {c} a consumer."""

REFUSED = {
    "SAVE",
    "BGSAVE",
    "BGREWRITEAOF",
}
"""Commands that fail here, whoever asks."""

SERVER = ServerCommands(EmbeddedBackend(Engine(MemoryStorage())))
COMMANDS = {
    name: entry
    for name, entry in [
        *((name.decode(), entry) for name, entry in SERVER.commands_by_name.items()),
        *(
            (f"{name.decode()} {below.decode()}", entry)
            for name, entries in SERVER.subcommands_by_name.items()
            for below, entry in entries.items()
        ),
    ]
    if name not in REFUSED
}

OBJECT = frozenset({"OBJECT ENCODING", "OBJECT FREQ", "OBJECT IDLETIME", "OBJECT REFCOUNT"})
OF_A_STREAM = frozenset(Verb) - {Verb.ADMIN}
EXACT = {
    "EXISTS": OF_A_STREAM,  # any right on the stream
    "TYPE": OF_A_STREAM,
    "TOUCH": OF_A_STREAM,
    "INFO": {Verb.ADMIN},  # or reading all streams, which no grant here allows
    "XACKDEL": frozenset[Verb](),  # two verbs at once
    "RENAME": frozenset[Verb](),  # likewise
    "RENAMENX": frozenset[Verb](),  # likewise
    "COPY": frozenset[Verb](),  # likewise
    **dict.fromkeys(OBJECT, OF_A_STREAM),
}
"""Commands whose right is not only that of the table."""

SHARED = frozenset({"EXISTS", "TYPE", "TOUCH", *OBJECT})


def words_of(name: str, about: About) -> list[str]:
    text = f"{name} {WORDS[name]}"
    return text.format(s=about.stream, g=about.group, c=about.consumer).split()


def is_allowed(name: str, verb: Verb, case: Case) -> bool:
    verbs = EXACT.get(name, COMMANDS[name].verbs)
    if name in EXACT and verb not in verbs:
        return False
    if verbs and verb not in verbs:
        return False
    if "{s}" not in WORDS[name]:
        return True
    if not case.is_own_stream:
        return False
    if case.groups is not None:
        return "{g}" in WORDS[name] and case.groups == ["g*"]
    if case.consumer is not None and name not in SHARED:
        return "{c}" in WORDS[name] and case.consumer == case.about.consumer
    return True


async def test_the_matrix_has_every_command() -> None:
    assert WORDS.keys() == COMMANDS.keys()


async def outcomes(client: httpx.AsyncClient, words: list[str], token: str) -> list[Any]:
    """Run a command alone, in a pipeline, in a transaction and by path; return what each says."""
    headers = {"Authorization": f"Bearer {token}"}
    alone = await client.post("/v1/commands", json=words, headers=headers)
    piped = await client.post("/v1/commands/pipeline", json=[words], headers=headers)
    bound = await client.post("/v1/commands/multi-exec", json=[words], headers=headers)
    path = "/v1/commands/" + "/".join(word.replace("*", "%2A") for word in words)
    by_path = await client.post(path, headers=headers)
    answers = [alone.json(), piped.json()[0], bound.json(), by_path.json()]
    return [each[0] if isinstance(each, list) else each for each in answers]


@pytest.mark.parametrize("name", WORDS)
async def test_a_command_is_allowed_where_a_grant_says_so(
    name: str, gateway: Secured, client: httpx.AsyncClient, keys: dict[tuple[Verb, str], str]
) -> None:
    for verb, case in cases():
        before = position(gateway)
        answers = await outcomes(client, words_of(name, case.about), keys[verb, case.name])
        refused = ["NOPERM" in str(each.get("error", "")) for each in answers]
        if is_allowed(name, verb, case):
            assert not any(refused), f"{verb}, {case.name}: {answers}"
        else:
            assert all(refused), f"{verb}, {case.name}: {answers}"
            assert position(gateway) == before, f"{verb}, {case.name} has changed something"


async def test_a_transaction_with_one_refusal_does_nothing(
    gateway: Secured, client: httpx.AsyncClient, keys: dict[tuple[Verb, str], str]
) -> None:
    before = position(gateway)
    token = keys[Verb.APPEND, "own"]
    words = [words_of("XADD", MINE), words_of("XADD", About("yours.a"))]

    answers = await client.post(
        "/v1/commands/multi-exec", json=words, headers={"Authorization": f"Bearer {token}"}
    )

    assert (answers.status_code, position(gateway)) == (400, before)
    assert answers.json()["error"].startswith("EXECABORT")
    assert "NOPERM" in answers.json()["error"]


async def test_wrong_words_are_refused_without_a_look_at_the_stream(
    gateway: Secured, client: httpx.AsyncClient, keys: dict[tuple[Verb, str], str]
) -> None:
    headers = {"Authorization": f"Bearer {keys[Verb.READ, 'own']}"}
    for words in (["XGROUP", "CREATE", "yours.a", "g", "no id"], ["XCFGSET", "yours.a", "NO"]):
        there = await client.post("/v1/commands", json=words, headers=headers)
        words[words.index("yours.a")] = "nowhere"
        missing = await client.post("/v1/commands", json=words, headers=headers)

        assert there.status_code == missing.status_code == 403
        assert there.json()["error"].replace("yours.a", "nowhere") == missing.json()["error"]
