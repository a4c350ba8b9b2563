"""Commands: for people, and client libraries, that already speak Redis."""

import base64
from collections.abc import Sequence
from typing import Annotated, Any
from urllib.parse import unquote_to_bytes

from fastapi import APIRouter, Body, Header, Request, Response
from pydantic import BaseModel, Field
from pydantic_core import to_json
from starlette.convertors import PathConvertor, register_url_convertor
from typing_extensions import TypeAliasType

from app.commands import CommandRunner
from app.dependencies import LimitsDep, check_at_most, gateway_of
from app.operation import Operation, UncheckedOperation, WholeRequest
from app.presence import while_present
from app.problems import GatewayError, responses
from app.redis_syntax.words import Reply, Status, shown
from engine.errors import Draining, StreamError, Unavailable


class _WordsConvertor(PathConvertor):
    """The rest of a path, line ends included: Starlette's own stops at them."""

    regex = r"[\s\S]*"


register_url_convertor("words", _WordsConvertor())

router = APIRouter(prefix="/v1/commands", tags=["Commands"], route_class=Operation)
paths = APIRouter(prefix="/v1/commands", tags=["Commands"], route_class=UncheckedOperation)

# Named types: without a name of ours, generated clients make one up.
Word = TypeAliasType("Word", str | int | float | bool)
Command = TypeAliasType(
    "Command",
    Annotated[
        list[Word],
        Field(min_length=1, description="A command and its arguments.", fail_fast=True),
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
    """What a command answered, in the shapes of RESP2."""

    result: Any = Field(description="A string, an integer, an array, or null.")


class Failure(BaseModel):
    """Why a command failed, in the words of Redis."""

    error: str = Field(examples=["ERR syntax error"])


Answer = TypeAliasType("Answer", Result | Failure)

_MALFORMED = responses("malformed")
_FAILED: dict[int | str, dict[str, Any]] = {
    400: {
        "description": "The command failed, in the words of Redis; or `malformed`: it is no JSON.",
        "content": {
            "application/json": {"schema": {"$ref": "#/components/schemas/Failure"}},
            "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}},
        },
    },
    503: {
        "description": "The journal cannot be written, or the gateway is about to stop.",
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Failure"}}},
    },
}
_BY_PATH = responses("method_not_allowed", "invalid_request")
_BODY = responses("unsupported_media_type", "invalid_request")


@router.post("", operation_id="runCommand", response_model=Result, responses=_FAILED | _BODY)
async def run_command(
    request: Request, command: Annotated[Command, Body()], encoding: Encoding = None
) -> Response:
    """Run a Redis command: `["XADD","orders","*","sku","42"]`.

    Every stream command with every option, and the key commands without which a client cannot live.
    A command that blocks ends when its client goes.
    """
    return await _answer(request, _encoded(command), encoding)


@router.post(
    "/pipeline",
    operation_id="runCommands",
    response_model=list[Answer],
    responses=_MALFORMED | _BODY,
)
async def run_commands(
    request: Request,
    limits: LimitsDep,
    commands: Annotated[list[Command], Body()],
    encoding: Encoding = None,
) -> Response:
    """Run commands in order, each by itself; one that fails does not stop the others."""
    check_at_most(len(commands), limits.batch_entries_max, pointer="/body")
    answers = []
    for command in commands:
        try:
            reply: Reply | StreamError = await _run(request, _encoded(command))
        except StreamError as error:
            reply = error
        answers.append(_wire(reply, encoding))
    return _json(answers)


@router.post(
    "/multi-exec",
    operation_id="runTransaction",
    response_model=list[Answer],
    responses=_FAILED | _BODY,
)
async def run_transaction(
    request: Request,
    limits: LimitsDep,
    commands: Annotated[list[Command], Body()],
    encoding: Encoding = None,
) -> Response:
    """Run commands at one moment with nothing in between (MULTI, EXEC); none of them waits."""
    check_at_most(len(commands), limits.batch_entries_max, pointer="/body")
    try:
        replies = await _runner(request).run_all([_encoded(command) for command in commands])
    except StreamError as error:
        return _failed(error)
    return _json([_wire(reply, encoding) for reply in replies])


@paths.get(
    "/{words:words}", operation_id="readByPath", response_model=Result, responses=_FAILED | _BY_PATH
)
async def read_by_path(request: Request, words: str, encoding: Encoding = None) -> Response:
    """Run a command that only reads, written in the path: `/v1/commands/XLEN/orders`."""
    del words
    command = _path_words(request)
    try:
        only_reads = _runner(request).only_reads(command)
    except StreamError as error:
        return _failed(error)
    if not only_reads:
        text = f"{shown(command[0])!r} changes something: send it by POST"
        raise GatewayError("method_not_allowed", text, pointer="/path")
    return await _answer(request, command, encoding)


@paths.post(
    "/{words:words}", operation_id="runByPath", response_model=Result, responses=_FAILED | _BY_PATH
)
async def run_by_path(request: WholeRequest, words: str, encoding: Encoding = None) -> Response:
    """Run a command written in the path; a body is its last argument."""
    del words
    body = request.content
    command = [*_path_words(request), *([body] if body else [])]
    return await _answer(request, command, encoding)


def _runner(request: Request) -> CommandRunner:
    runner = gateway_of(request).commands
    if runner is None:
        raise GatewayError("not_found", "this backend runs no commands", pointer="/path")
    return runner


async def _run(request: Request, words: list[bytes]) -> Reply:
    runner = _runner(request)
    running = runner.run(words)
    return await (while_present(request, running) if runner.may_wait(words) else running)


async def _answer(request: Request, words: list[bytes], encoding: str | None) -> Response:
    try:
        reply = await _run(request, words)
    except StreamError as error:
        return _failed(error)
    return _json(_wire(reply, encoding))


def _encoded(words: Sequence[Word]) -> list[bytes]:
    """Return the bytes of a command: a number as JSON has it, a truth value as a word."""
    return [str(w).lower().encode() if isinstance(w, bool) else str(w).encode() for w in words]


def _path_words(request: Request) -> list[bytes]:
    """Return the words of a path and its query, any bytes in them."""
    raw: bytes = request.scope["raw_path"].partition(b"/v1/commands/")[2]
    words = [unquote_to_bytes(word) for word in raw.split(b"/")]
    for name, value in request.query_params.multi_items():
        words += [name.encode(), value.encode()] if value else [name.encode()]
    return words


def _wire(reply: Reply | StreamError, encoding: str | None) -> dict[str, Any]:
    if isinstance(reply, Unavailable):  # Redis's word for a disk that takes no writes
        return {"error": f"{'ERR' if isinstance(reply, Draining) else 'MISCONF'} {reply}"}
    if isinstance(reply, StreamError):
        return {"error": str(reply)}
    return {"result": _shape(reply, is_base64=encoding == "base64")}


def _shape(reply: Reply, *, is_base64: bool) -> Any:
    if reply is None or isinstance(reply, int):
        return reply
    if isinstance(reply, Status):
        is_plain = reply == "OK" or not is_base64
        return str(reply) if is_plain else base64.b64encode(reply.encode()).decode()
    if isinstance(reply, bytes):
        return base64.b64encode(reply).decode() if is_base64 else reply.decode(errors="replace")
    return [_shape(one, is_base64=is_base64) for one in reply]


def _failed(error: StreamError) -> Response:
    return _json(_wire(error, None), 503 if isinstance(error, Unavailable) else 400)


def _json(value: Any, status: int = 200) -> Response:
    return Response(to_json(value), status, media_type="application/json")
