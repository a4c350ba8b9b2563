"""Commands: for people, and client libraries, that already speak Redis."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Annotated, Any
from urllib.parse import unquote_to_bytes

from fastapi import APIRouter, Body, Header, Request, Response
from pydantic import BaseModel, Field
from pydantic_core import to_json
from typing_extensions import TypeAliasType

from headgate.app.auth.access import Access
from headgate.app.auth.grants import Verb
from headgate.app.auth.needs import needs
from headgate.app.auth.principal import Need
from headgate.app.backends.payloads import PayloadTooLarge
from headgate.app.backends.port import Ability
from headgate.app.channels.channels import Mailbox
from headgate.app.channels.message import ONE_LINE
from headgate.app.http.dependencies import LimitsDep, access_of, check_at_most, gateway_of
from headgate.app.http.operation import Operation, UncheckedOperation, WholeRequest
from headgate.app.http.streaming import HEARTBEAT, EventStream, while_present
from headgate.app.live.event_connection import EventConnection
from headgate.app.live.subscription import ending, merged
from headgate.app.redis_syntax.answers import Answers
from headgate.app.redis_syntax.command import error_text
from headgate.app.redis_syntax.replies import Reply
from headgate.app.redis_syntax.runs import CommandRunner
from headgate.app.redis_syntax.words import CommandError, shown
from headgate.app.wire.problems import GatewayError, responses
from headgate.app.wire.structure import OneOf
from headgate.engine.errors import StreamError, Unavailable
from headgate.engine.limits import COMMAND_WORDS_MAX, TRANSACTION_COMMANDS_MAX
from headgate.engine.threads import this_turn

router = APIRouter(prefix="/v1/commands", tags=["Commands"], route_class=Operation)
paths = APIRouter(prefix="/v1/commands", tags=["Commands"], route_class=UncheckedOperation)

# Named types: without a name of ours, generated clients make one up.
Word = TypeAliasType(
    "Word", Annotated[str | int | float | bool, OneOf("should be a string, a number or a boolean")]
)
Command = TypeAliasType(
    "Command",
    Annotated[
        list[Word], Field(min_length=1, description="A command and its arguments.", fail_fast=True)
    ],
)
Encoding = Annotated[
    str | None,
    Header(
        alias="Upstash-Encoding",
        description="`base64`: encode strings of the answer in base64, so that they can have any "
        "bytes.",
    ),
]


class Result(BaseModel):
    """The result of a command, in the types of RESP2."""

    result: Any = Field(description="A string, an integer, an array, or null.")


class Failure(BaseModel):
    """Why a command failed, as Redis says it."""

    error: str = Field(examples=["ERR syntax error"])


Answer = TypeAliasType("Answer", Result | Failure)

_STATUS = {"NOAUTH": 401, "NOPERM": 403, "LIMIT": 429}

_TOO_MUCH = "ERR the replies before this one are too large together: send fewer commands at once"

_SUBSCRIBING = (b"subscribe", b"psubscribe")

_MALFORMED = responses("malformed", "not_supported")
_FAILED: dict[int | str, dict[str, Any]] = {
    400: {
        "description": "The command failed, with an error as of Redis; or `malformed`: the body "
        "is not JSON.",
        "content": {
            "application/json": {"schema": {"$ref": "#/components/schemas/Failure"}},
            "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}},
        },
    },
    **responses("not_supported"),
    413: {
        "description": "The memory has no room for the values that the command restores; or "
        "`too_large`: the body is too long.",
        "content": {
            "application/json": {"schema": {"$ref": "#/components/schemas/Failure"}},
            "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}},
        },
    },
    503: {
        "description": (
            "The gateway cannot write its journal, is shutting down, or is restoring payloads of "
            "other clients."
        ),
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Failure"}}},
    },
}
_BY_PATH = responses("method_not_allowed", "invalid_request")
_BODY = responses("unsupported_media_type", "invalid_request")


@router.post("", operation_id="runCommand", response_model=Result, responses=_FAILED | _BODY)
@needs()
async def run_command(
    request: Request, command: Annotated[Command, Body()], encoding: Encoding = None
) -> Response:
    """Run a Redis command, such as `["XADD","orders","*","sku","42"]`.

    The gateway supports all stream commands with all options, and the key commands that clients
    need. A blocking command ends when its client disconnects.

    A reply stays within `read_entries_max` and `read_bytes_max`. XREAD returns at most 5,000
    entries at once, XREADGROUP 2,000, XAUTOCLAIM 1,000, XPENDING 5,000 and SCAN `read_entries_max`.
    Call them again to get the rest. XRANGE, XINFO and KEYS fail if there is more. A command may
    have at most 20,000 words, a read 1,000 streams, and a pattern, a new name or a key 1,024 bytes.
    """
    return await _answer(request, _encoded(command), encoding)


@router.post(
    "/pipeline",
    operation_id="runCommands",
    response_model=list[Answer],
    responses=_MALFORMED | _BODY,
)
@needs()
async def run_commands(
    request: Request,
    limits: LimitsDep,
    commands: Annotated[list[Command], Body()],
    encoding: Encoding = None,
) -> Response:
    """Run commands in order, each independently. A command that fails does not stop the others.

    Once the replies exceed about `read_bytes_max` together, the remaining commands fail.
    """
    check_at_most(len(commands), limits.batch_entries_max, pointer="/body")
    access_of(request).usage.spend(requests=len(commands) - 1)
    answers = _answers(encoding)
    for command in commands:
        try:
            if answers.size_bytes > limits.read_bytes_max:
                raise CommandError(_TOO_MUCH)
            reply: Reply | StreamError = await _run(request, _encoded(command))
        except StreamError as error:
            reply = error.with_traceback(None)  # or its frames lead back to it
        await answers.add(reply)
    return _json(answers.all())


@router.post(
    "/multi-exec",
    operation_id="runTransaction",
    response_model=list[Answer],
    responses=_FAILED | _BODY,
)
@needs()
async def run_transaction(
    request: Request,
    limits: LimitsDep,
    commands: Annotated[list[Command], Body()],
    encoding: Encoding = None,
) -> Response:
    """Run commands as a transaction (MULTI, EXEC). None of them waits, and nothing runs in between.

    All replies together have the limits of a single reply. A transaction may have at most 12,500
    commands and 200,000 words. Its work is limited as well, because nothing else runs meanwhile.
    The limit allows 10,000 short XADDs, or a copy of a stream with thousands of groups. A
    transaction above the limit changes nothing (`EXECABORT`). A single command that would take long
    fails, such as a trim of a million entries.
    """
    limit = min(limits.batch_entries_max, TRANSACTION_COMMANDS_MAX)
    check_at_most(len(commands), limit, pointer="/body")
    access_of(request).usage.spend(requests=len(commands) - 1)
    turn, words = this_turn(), []
    for command in commands:
        words.append(_encoded(command))
        await turn.pause()
    try:
        replies = await _commands(request).run_all(words)
    except StreamError as error:
        return _failed(error)
    answers = _answers(encoding)
    for reply in replies:
        await answers.add(reply)
    return _json(answers.all())


@paths.get(
    "/{words:path}", operation_id="readByPath", response_model=Result, responses=_FAILED | _BY_PATH
)
@needs()
async def read_by_path(request: Request, words: str, encoding: Encoding = None) -> Response:
    """Run a read-only command that is written in the path, such as `/v1/commands/XLEN/orders`."""
    del words
    command = _path_words(request)
    try:
        only_reads = _commands(request).only_reads(command)
    except StreamError as error:
        return _failed(error)
    if not only_reads:
        text = f"{shown(command[0])!r} changes data: send it with POST"
        raise GatewayError("method_not_allowed", text, pointer="/path")
    return await _answer(request, command, encoding)


@paths.post(
    "/{words:path}", operation_id="runByPath", response_model=Result, responses=_FAILED | _BY_PATH
)
@needs()
async def run_by_path(request: WholeRequest, words: str, encoding: Encoding = None) -> Response:
    """Run a command that is written in the path. A body is its last argument.

    `/subscribe/{channel}` and `/psubscribe/{pattern}` send messages as events, in the format of
    Upstash: `data: message,room,hello`.
    """
    del words
    body, command = request.content, _path_words(request)
    if command[0].lower() in _SUBSCRIBING and len(command) > 1:
        gateway, access = gateway_of(request), access_of(request)
        if command[0].lower() == b"psubscribe":
            access.check({Verb.SUBSCRIBE})
        else:
            await access.require_each(Verb.SUBSCRIBE, command[1:])
        return EventStream(_messages(request, gateway.connected(access), command), gateway.limits)
    if body:
        command.append(body)
    return await _answer(request, command, encoding)


async def _messages(
    request: Request, access: Access, words: Sequence[bytes]
) -> AsyncGenerator[bytes, None]:
    """Yield the messages of channels, or of those that match, as lines with their parts."""
    gateway = gateway_of(request)
    channels = gateway.channels
    kind, names = words[0].lower(), words[1:]
    is_pattern = kind == b"psubscribe"
    connection = EventConnection(gateway, request, access)
    mailbox = Mailbox(channels)

    async def coming() -> AsyncGenerator[bytes, None]:
        for count, name in enumerate(names, 1):
            await channels.listen(mailbox, name, is_pattern=is_pattern)
            yield _line(kind, name, b"%d" % count)
        while True:
            message, pattern, _ = await mailbox.next(within_ms=gateway.limits.heartbeat_ms)
            if message is None:
                yield HEARTBEAT
            elif access.principal.may(Need((Verb.SUBSCRIBE,), message.channel)):
                by = (b"message",) if pattern is None else (b"pmessage", pattern)
                yield _line(*by, message.channel, message.data)

    try:
        with connection.listed(), access.usage.connections.held():
            async with aclosing(merged(coming(), ending(connection.wait_end))) as parts:
                async for part in parts:
                    yield part
    except (StreamError, GatewayError) as error:
        yield connection.last_event(error)
    finally:
        for name in names:
            channels.leave(mailbox, name, is_pattern=is_pattern)
        mailbox.close()


def _line(*parts: bytes) -> bytes:
    return b"data: %b\n\n" % b",".join(parts).translate(ONE_LINE)


def _commands(request: Request) -> CommandRunner:
    gateway = gateway_of(request)
    gateway.require(Ability.COMMANDS)
    assert gateway.commands is not None
    return gateway.commands.by(access_of(request))


async def _run(request: Request, words: list[bytes]) -> Reply:
    commands = _commands(request)
    running = commands.run(words)
    return await (while_present(request, running) if commands.may_wait(words) else running)


async def _answer(request: Request, words: list[bytes], encoding: str | None) -> Response:
    try:
        reply = await _run(request, words)
    except StreamError as error:
        return _failed(error)
    answers = _answers(encoding)
    await answers.add(reply)
    return _json(answers.only())


def _encoded(words: Sequence[Word]) -> list[bytes]:
    """Return the words of a command: numbers as in JSON, booleans as words.

    Of too many words it returns one too many, for which the command is refused.
    """
    return [
        str(word).lower().encode() if isinstance(word, bool) else str(word).encode()
        for word in words[: COMMAND_WORDS_MAX + 1]
    ]


def _path_words(request: Request) -> list[bytes]:
    """Return the words of a path and its query; they may be any bytes."""
    raw: bytes = request.scope["raw_path"].partition(b"/v1/commands/")[2]
    words = [unquote_to_bytes(word) for word in raw.split(b"/")]
    for name, value in request.query_params.multi_items():
        words += [name.encode(), value.encode()] if value else [name.encode()]
    return words


def _answers(encoding: str | None) -> Answers:
    return Answers(is_base64=encoding == "base64")


def _failed(error: StreamError) -> Response:
    text = error_text(error)
    status = _STATUS.get(text.partition(" ")[0], 400)
    if isinstance(error, Unavailable):
        status = 503
    elif isinstance(error, PayloadTooLarge):
        status = 413
    return _json(to_json({"error": text}), status)


def _json(content: bytes, status: int = 200) -> Response:
    return Response(content, status, media_type="application/json")
