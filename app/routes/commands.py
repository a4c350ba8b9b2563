"""Commands: for people, and client libraries, that already speak Redis."""

from collections.abc import Sequence
from typing import Annotated, Any
from urllib.parse import unquote_to_bytes

from fastapi import APIRouter, Body, Header, Request, Response
from pydantic import BaseModel, Field
from pydantic_core import to_json
from typing_extensions import TypeAliasType

from headgate.app.auth.needs import needs
from headgate.app.backends.payloads import PayloadTooLarge
from headgate.app.backends.port import Ability
from headgate.app.http.dependencies import LimitsDep, access_of, check_at_most, gateway_of
from headgate.app.http.operation import Operation, UncheckedOperation, WholeRequest
from headgate.app.http.streaming import while_present
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
        description="`base64`: strings of the answer are base64 text, so that any bytes pass.",
    ),
]


class Result(BaseModel):
    """The result of a command, in the shapes of RESP2."""

    result: Any = Field(description="A string, an integer, an array, or null.")


class Failure(BaseModel):
    """Why a command failed, in the words of Redis."""

    error: str = Field(examples=["ERR syntax error"])


Answer = TypeAliasType("Answer", Result | Failure)

_STATUS = {"NOAUTH": 401, "NOPERM": 403, "LIMIT": 429}

_TOO_MUCH = "ERR the replies before this one are too large together: send fewer commands at once"

_MALFORMED = responses("malformed", "not_supported")
_FAILED: dict[int | str, dict[str, Any]] = {
    400: {
        "description": "The command failed, in the words of Redis; or `malformed`: it is no JSON.",
        "content": {
            "application/json": {"schema": {"$ref": "#/components/schemas/Failure"}},
            "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}},
        },
    },
    **responses("not_supported"),
    413: {
        "description": "What the command restores takes more memory than there is for all; or "
        "`too_large`: the body is too long.",
        "content": {
            "application/json": {"schema": {"$ref": "#/components/schemas/Failure"}},
            "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}},
        },
    },
    503: {
        "description": (
            "The journal cannot be written, the gateway is about to stop, or payloads of other "
            "clients are being restored."
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
    """Run a Redis command: `["XADD","orders","*","sku","42"]`.

    Every stream command with every option, and the key commands without which a client cannot live.
    A command that blocks ends when its client goes.

    A reply keeps within `read_entries_max` and `read_bytes_max`. XREAD hands out 5,000 entries at
    once, XREADGROUP 2,000, XAUTOCLAIM 1,000, XPENDING 5,000, SCAN `read_entries_max`: whoever
    goes on gets the rest. XRANGE, XINFO and KEYS fail if there is more. A command has 20,000 words
    at most, a read 1,000 streams, a pattern, a new name and a key 1,024 bytes.
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
    """Run commands in order, each by itself; one that fails does not stop the others.

    Once their replies have more than about `read_bytes_max`, those that are left fail instead.
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
    """Run commands at one moment with nothing in between (MULTI, EXEC); none of them waits.

    All their replies share the bounds that one has else. There may be 12,500 commands of 200,000
    words together. What they do together has a bound, too, as nothing else runs meanwhile: 10,000
    short XADDs are within it, or a copy of a stream with thousands of groups. A transaction beyond
    it does nothing (`EXECABORT`). What would take long by itself fails, such as a trim of a million
    entries.
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
    """Run a command that only reads, written in the path: `/v1/commands/XLEN/orders`."""
    del words
    command = _path_words(request)
    try:
        only_reads = _commands(request).only_reads(command)
    except StreamError as error:
        return _failed(error)
    if not only_reads:
        text = f"{shown(command[0])!r} changes something: send it by POST"
        raise GatewayError("method_not_allowed", text, pointer="/path")
    return await _answer(request, command, encoding)


@paths.post(
    "/{words:path}", operation_id="runByPath", response_model=Result, responses=_FAILED | _BY_PATH
)
@needs()
async def run_by_path(request: WholeRequest, words: str, encoding: Encoding = None) -> Response:
    """Run a command written in the path; a body is its last argument."""
    del words
    body = request.content
    command = [*_path_words(request), *([body] if body else [])]
    return await _answer(request, command, encoding)


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
