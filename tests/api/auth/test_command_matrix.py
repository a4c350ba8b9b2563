"""Every Redis command x every verb x whose stream, group and consumer it is, in each way to run it.

What a refusal says is Redis's: NOPERM.
"""

import json
from typing import Any

import httpx
import pytest

from headgate.app.auth.grants import Verb
from headgate.app.backends.embedded import EmbeddedBackend
from headgate.app.redis_syntax.server import ServerCommands
from headgate.engine.engine import Engine
from headgate.engine.journal.storage import MemoryStorage
from tests.api.auth.matrix import CASES, MINE, About, Case, cases
from tests.api.auth.secured import Secured

pytestmark = pytest.mark.asyncio(loop_scope="session")

_NAMES = {
    "": (
        "PING, TIME, DBSIZE, RANDOMKEY, FLUSHALL, FLUSHDB, INFO, COMMAND, COMMAND COUNT, LASTSAVE, "
        "COMMAND LIST, COMMAND HELP, CONFIG RESETSTAT, CONFIG HELP, ACL WHOAMI, ACL HELP, "
        "FUNCTION FLUSH, FUNCTION HELP, SCRIPT FLUSH, SCRIPT HELP, LATENCY LATEST, LATENCY HELP, "
        "SLOWLOG GET, SLOWLOG LEN, SLOWLOG RESET, SLOWLOG HELP, MEMORY HELP, OBJECT HELP, "
        "XGROUP HELP, XINFO HELP"
    ),
    "{s}": (
        "XLEN, XINFO STREAM, XINFO GROUPS, DEL, UNLINK, EXISTS, TYPE, DUMP, EXPIRETIME, TOUCH, "
        "PEXPIRETIME, TTL, PTTL, PERSIST, MEMORY USAGE, OBJECT ENCODING, OBJECT FREQ, "
        "OBJECT IDLETIME, OBJECT REFCOUNT"
    ),
    "{s} {s}b": "RENAME, RENAMENX, COPY",
    "{s} {g}": "XGROUP DESTROY, XINFO CONSUMERS",
    "{s} {g} $": "XGROUP CREATE, XGROUP SETID",
    "{s} {g} {c}": "XGROUP CREATECONSUMER, XGROUP DELCONSUMER",
    "xadd": "COMMAND INFO, COMMAND DOCS",
    "xlen s": "COMMAND GETKEYS, COMMAND GETKEYSANDFLAGS",
}
WORDS = {
    "XADD": "{s} * f v",
    "XTRIM": "{s} MAXLEN 1000",
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
    "ECHO": "hello",
    "KEYS": "*",
    "SCAN": "0",
    "RESTORE": "{s} 0 payload",
    "EXPIRE": "{s} 1000",
    "PEXPIRE": "{s} 1000000",
    "EXPIREAT": "{s} 99999999999",
    "PEXPIREAT": "{s} 99999999999999",
    "CONFIG GET": "save",
    "CONFIG SET": "slowlog-max-len 10",
    "WAIT": "0 0",
    "WAITAOF": "0 0 0",
    **{name: words for words, names in _NAMES.items() for name in names.split(", ")},
}
"""Words behind the name of each command: {s} a stream, {g} a group, {c} a consumer."""

REFUSED = {"SAVE", "BGSAVE", "BGREWRITEAOF"}
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


WAYS = ["alone", "by path", "pipeline", "transaction"]


async def answer_to(client: httpx.AsyncClient, way: str, words: list[str], token: str) -> Any:
    """Run a command in one of the ways, and return what it says."""
    path, body = "/v1/commands", json.dumps(words if way == "alone" else [words])
    if way == "by path":
        path, body = "/".join([path, *(word.replace("*", "%2A") for word in words)]), ""
    elif way != "alone":
        path += "/pipeline" if way == "pipeline" else "/multi-exec"
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    answer = (await client.post(path, content=body, headers=headers)).json()
    return answer[0] if isinstance(answer, list) else answer


@pytest.mark.parametrize(("verb", "case"), list(cases()), ids=str)
async def test_commands_are_allowed_where_a_grant_says_so(
    verb: Verb,
    case: Case,
    matrix: Secured,
    client: httpx.AsyncClient,
    keys: dict[tuple[Verb, str], str],
) -> None:
    headers = {"Authorization": f"Bearer {keys[verb, case.name]}"}
    for are_allowed in (False, True):
        before = matrix.live.position
        names = [name for name in WORDS if is_allowed(name, verb, case) == are_allowed]
        pipeline = [words_of(name, case.about) for name in names]
        answers = await client.post("/v1/commands/pipeline", json=pipeline, headers=headers)
        refused = {
            name
            for name, answer in zip(names, answers.json(), strict=True)
            if "NOPERM" in str(answer.get("error", ""))
        }
        assert refused == (set() if are_allowed else set(names))
        assert are_allowed or matrix.live.position == before


@pytest.mark.parametrize("way", WAYS)
async def test_each_way_to_run_a_command_asks_for_its_right(
    way: str, matrix: Secured, client: httpx.AsyncClient, keys: dict[tuple[Verb, str], str]
) -> None:
    for verb in (Verb.READ, Verb.MANAGE):
        for name in WORDS:
            before = matrix.live.position
            answer = await answer_to(client, way, words_of(name, MINE), keys[verb, "own"])
            is_refused = "NOPERM" in str(answer.get("error", ""))
            assert is_refused != is_allowed(name, verb, CASES[0]), (verb, name, answer)
            assert not is_refused or matrix.live.position == before


async def test_wrong_words_are_refused_without_a_look_at_the_stream(
    client: httpx.AsyncClient, keys: dict[tuple[Verb, str], str]
) -> None:
    headers = {"Authorization": f"Bearer {keys[Verb.READ, 'own']}"}
    for words in (["XGROUP", "CREATE", "yours.a", "g", "no id"], ["XCFGSET", "yours.a", "NO"]):
        there = await client.post("/v1/commands", json=words, headers=headers)
        words[words.index("yours.a")] = "nowhere"
        missing = await client.post("/v1/commands", json=words, headers=headers)

        assert there.status_code == missing.status_code == 403
        assert there.json()["error"].replace("yours.a", "nowhere") == missing.json()["error"]
