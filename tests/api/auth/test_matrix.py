"""Every operation, command and frame x every verb x whose stream, group and consumer it is.

The operations, their verbs and their requests come from the document that clients have. What is
refused changes nothing.
"""

import json
from operator import itemgetter
from pathlib import Path
from typing import Any, get_args

import httpx
import pyarrow as pa
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from headgate.app.auth.grants import Verb
from headgate.app.backends.embedded import EmbeddedBackend
from headgate.app.channels.channels import Channels
from headgate.app.live.frames.client import AnyClientFrame
from headgate.app.redis_syntax.server import ServerCommands
from headgate.engine.engine import Engine
from headgate.engine.journal.storage import MemoryStorage
from tests.api.auth.matrix import (
    CASES,
    MINE,
    About,
    Case,
    Operation,
    cases,
    cases_about,
    operations,
)
from tests.api.auth.secured import Secured

pytestmark = pytest.mark.asyncio(loop_scope="session")

OPERATIONS = {
    operation.id: operation
    for operation in operations(json.loads(Path("openapi/openapi.json").read_text("utf-8")))
    if not operation.path.startswith("/v1/commands")  # see COMMANDS
}

SHARED = frozenset({"describeGroup", "readGroupHistory"})
"""Operations with the same answer for all consumers: a grant for one of them is enough."""

NARROWER = {"createTicket": frozenset({"read"})}
"""Operations whose example needs less than the operation may."""

OF_TWO_VERBS = frozenset(
    {
        *("closeStream", "commit", "setSchedule"),
        *("setPush", "setPatternPush", "resumePush", "testPush", "replayPush"),
    }
)
"""Operations whose example needs two verbs or more: no grant of one is enough."""


def is_allowed(operation: Operation, verb: Verb, case: Case) -> bool:
    """Tell whether the page of rights allows it."""
    verbs = NARROWER.get(operation.id, operation.verbs)
    if operation.is_open:
        return True
    if (verbs and verb not in verbs) or operation.id in OF_TWO_VERBS:
        return False
    if not operation.names("stream"):
        return True
    if not case.is_own_stream:
        return False
    if case.groups is not None:
        return operation.names("group") and case.groups == ["g*"]
    if case.consumer is not None and operation.id not in SHARED:
        return operation.names("consumer") and case.consumer == case.about.consumer
    return True


async def status_of(client: httpx.AsyncClient, request: httpx.Request) -> tuple[int, str]:
    """Return the status of an answer, and the code of its problem if it has one."""
    async with client.stream(
        request.method, request.url, headers=request.headers, content=request.content
    ) as answer:
        if not answer.headers.get("content-type", "").startswith("application/problem+json"):
            return answer.status_code, ""
        return answer.status_code, json.loads(await answer.aread())["code"]


@pytest.mark.parametrize("name", OPERATIONS)
async def test_an_operation_is_allowed_where_a_grant_says_so(
    name: str,
    matrix: Secured,
    client: httpx.AsyncClient,
    keys: dict[tuple[Verb, str], str],
    ended: dict[str, str],
) -> None:
    operation = OPERATIONS[name]
    before = matrix.live.position
    for token in (*ended.values(), None):
        answered = await status_of(client, request_of(operation, client, MINE, token))
        assert answered == ((200, "") if operation.is_open else (401, "unauthenticated"))
    assert matrix.live.position == before
    asked = [(is_allowed(operation, *each), *each) for each in cases_about(operation.verbs)]
    for allowed, verb, case in sorted(asked, key=itemgetter(0)):  # first what changes nothing
        request = request_of(operation, client, case.about, keys[verb, case.name])
        status, code = await status_of(client, request)
        if allowed:
            assert status not in (401, 403), f"{verb}, {case.name}: {status}"
        else:
            assert (status, code) == (403, "forbidden"), f"{verb}, {case.name}: {status}"
            assert matrix.live.position == before, f"{verb}, {case.name} has changed something"


def request_of(
    operation: Operation, client: httpx.AsyncClient, about: About, token: str | None
) -> httpx.Request:
    """Return the request of an operation, with a body of Arrow where its example has none."""
    request = operation.request(client, about, token)
    if operation.id != "stageChunk":
        return request
    sink = pa.BufferOutputStream()
    table = pa.table({"fields": pa.array([[("k", "v")]], pa.map_(pa.utf8(), pa.utf8()))})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    headers = request.headers
    headers.update({"Content-Type": "application/vnd.apache.arrow.stream"})
    del headers["Content-Length"]
    content = sink.getvalue().to_pybytes()
    return client.build_request(request.method, request.url, headers=headers, content=content)


_NAMES = {
    "": (
        "PING, TIME, DBSIZE, RANDOMKEY, FLUSHALL, FLUSHDB, INFO, COMMAND, COMMAND COUNT, LASTSAVE, "
        "COMMAND LIST, COMMAND HELP, CONFIG RESETSTAT, CONFIG HELP, ACL WHOAMI, ACL HELP, "
        "FUNCTION FLUSH, FUNCTION HELP, SCRIPT FLUSH, SCRIPT HELP, LATENCY LATEST, LATENCY HELP, "
        "SLOWLOG GET, SLOWLOG LEN, SLOWLOG RESET, SLOWLOG HELP, MEMORY HELP, OBJECT HELP, "
        "XGROUP HELP, XINFO HELP, PUBSUB CHANNELS, PUBSUB NUMPAT, PUBSUB NUMSUB, PUBSUB HELP"
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
    "PUBLISH": "{s} hello",
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
SERVER.attach(channels=Channels())
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
OF_A_STREAM = frozenset(Verb) - {Verb.ADMIN, Verb.PUBLISH, Verb.SUBSCRIBE}
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

SHARED_COMMANDS = frozenset({"EXISTS", "TYPE", "TOUCH", *OBJECT})


def words_of(name: str, about: About) -> list[str]:
    return f"{name} {WORDS[name]}".format(s=about.stream, g=about.group, c=about.consumer).split()


def is_command_allowed(name: str, verb: Verb, case: Case) -> bool:
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
    if case.consumer is not None and name not in SHARED_COMMANDS:
        return "{c}" in WORDS[name] and case.consumer == case.about.consumer
    return True


async def test_the_matrix_has_every_command() -> None:
    assert WORDS.keys() == COMMANDS.keys()


WAYS = ["alone", "by path", "pipeline", "transaction"]


async def reply_to(client: httpx.AsyncClient, way: str, words: list[str], token: str) -> Any:
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
        names = [name for name in WORDS if is_command_allowed(name, verb, case) == are_allowed]
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
            answer = await reply_to(client, way, words_of(name, MINE), keys[verb, "own"])
            is_refused = "NOPERM" in str(answer.get("error", ""))
            assert is_refused != is_command_allowed(name, verb, CASES[0]), (verb, name, answer)
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


A_STREAM: dict[str, Any] = {"type": "subscribe", "rid": "1", "sub": "s", "stream": "{s}"}
A_GROUP = {**A_STREAM, "group": "{g}", "consumer": "{c}"}
AN_APPEND = {"type": "append", "rid": "1", "stream": "{s}", "entries": [{"fields": {"f": "v"}}]}

A_COMMIT = {
    "type": "commit",
    "rid": "1",
    "steps": [{"append": {"stream": "{s}", "entries": [{"fields": {"n": "1"}}]}}],
}

A_CHANNEL = {"type": "subscribe", "rid": "1", "sub": "s", "channel": "{s}", "presence": {}}
A_MESSAGE = {"type": "publish", "rid": "1", "channel": "{s}", "data": 1}

FRAMES = {
    "subscribe to a channel": (A_CHANNEL, Verb.SUBSCRIBE),
    "publish": (A_MESSAGE, Verb.PUBLISH),
    "subscribe to a stream": (A_STREAM, Verb.READ),
    "subscribe to a group": (A_GROUP, Verb.CONSUME),
    "append": (AN_APPEND, Verb.APPEND),
    "commit": (A_COMMIT, Verb.APPEND),
}

SHORT = {
    "socket of a stream": ("/v1/streams/{s}/ws", Verb.READ),
    "socket of a group": ("/v1/streams/{s}/groups/{g}/ws?consumer={c}", Verb.CONSUME),
}

OF_A_SUBSCRIPTION = frozenset({"unsubscribe", "credit", "ack", "nack", "extend", "presence"})
"""Frames about a subscription, which is there only if it is allowed."""

OPEN = frozenset({"ping", "auth"})


def filled(template: Any, about: About) -> str:
    text = template if isinstance(template, str) else json.dumps(template)
    for place, name in {"{s}": about.stream, "{g}": about.group, "{c}": about.consumer}.items():
        text = text.replace(place, name)
    return text


def is_frame_allowed(template: Any, needed: Verb, verb: Verb, case: Case) -> bool:
    text = str(template)
    if verb is not needed or not case.is_own_stream:
        return False
    if case.groups is not None:
        return "{g}" in text and case.groups == ["g*"]
    if case.consumer is not None:
        return "{c}" in text and case.consumer == case.about.consumer
    return True


def asked(template: Any, needed: Verb) -> list[tuple[bool, Verb, Case]]:
    """Return each case with whether it is allowed: first those that change nothing."""
    cases = cases_about({needed})
    rows = [(is_frame_allowed(template, needed, verb, case), verb, case) for verb, case in cases]
    return sorted(rows, key=itemgetter(0))


def opened(matrix: Secured, path: str, token: str) -> connect:
    headers = {"Authorization": f"Bearer {token}"}
    return connect(matrix.live.ws_url + path, additional_headers=headers)


async def answer_to(socket: ClientConnection) -> dict[str, Any]:
    """Return the answer to the frame with the rid 1."""
    while True:
        frame: dict[str, Any] = json.loads(await socket.recv())
        if frame.get("rid") == "1":
            return frame


async def test_the_matrix_has_every_frame() -> None:
    kinds = {
        get_args(model.model_fields["type"].annotation)[0]
        for model in get_args(get_args(AnyClientFrame)[0])
    }
    assert kinds == {"subscribe", "append", "commit", "publish"} | OF_A_SUBSCRIPTION | OPEN


@pytest.mark.parametrize("name", FRAMES)
async def test_a_frame_is_allowed_where_a_grant_says_so(
    name: str, matrix: Secured, keys: dict[tuple[Verb, str], str]
) -> None:
    template, needed = FRAMES[name]
    before = matrix.live.position
    for allowed, verb, case in asked(template, needed):
        async with opened(matrix, "/v1/ws", keys[verb, case.name]) as socket:
            await socket.send(filled(template, case.about))
            answer = await answer_to(socket)
        if allowed:
            assert answer["type"] != "problem", f"{verb}, {case.name}: {answer}"
        else:
            assert answer["problem"]["code"] == "forbidden", f"{verb}, {case.name}: {answer}"
            assert matrix.live.position == before


@pytest.mark.parametrize("name", SHORT)
async def test_a_short_form_is_allowed_where_a_grant_says_so(
    name: str, matrix: Secured, keys: dict[tuple[Verb, str], str]
) -> None:
    template, needed = SHORT[name]
    before = matrix.live.position
    for allowed, verb, case in asked(template, needed):
        async with opened(matrix, filled(template, case.about), keys[verb, case.name]) as socket:
            frames = [json.loads(await socket.recv()) for _ in range(2)]
            if allowed:
                assert frames[1]["type"] == "subscribed", f"{verb}, {case.name}: {frames}"
                continue
            assert frames[1]["problem"]["code"] == "forbidden", f"{verb}, {case.name}: {frames}"
            with pytest.raises(ConnectionClosed):
                await socket.recv()
            assert socket.close_code == 4403
        assert matrix.live.position == before


@pytest.mark.parametrize("path", ["/v1/ws", *(path for path, _ in SHORT.values())])
async def test_an_ended_key_opens_none(path: str, matrix: Secured, ended: dict[str, str]) -> None:
    for token in ended.values():
        async with opened(matrix, path.format(s="mine.a", g="g", c="me"), token) as socket:
            assert json.loads(await socket.recv())["problem"]["code"] == "unauthenticated"
            with pytest.raises(ConnectionClosed):
                await socket.recv()
        assert socket.close_code == 4401
