"""Paths and names, offsets, and the answers of Durable Streams."""

import re
from collections.abc import Awaitable, Callable, Mapping
from functools import wraps
from random import Random
from typing import Any, TypeVar
from urllib.parse import quote

from fastapi import Request, Response

from headgate.app.durable_streams.producers import ProducerRefusal
from headgate.app.http.handlers import answer_to
from headgate.app.transport.proxies import base_url
from headgate.app.wire.name_rule import fault_of
from headgate.app.wire.problems import GatewayError, code_of, status_of
from headgate.engine.entry import MIN_ID, EntryId
from headgate.engine.errors import StreamError
from headgate.engine.limits import U64_MAX
from headgate.engine.requests.entries import From
from headgate.engine.requests.keyspace import RESERVED

# Paths: the URL of a stream and its name, one from the other.
#
# | in the path | in the name |
# |---|---|
# | `/` | `:` |
# | `:` | `%3A` |
# | `%` | `%25` |
#
# Everything else is the same in both. The first segment `__ds` is reserved by the protocol, and no
# path begins with `__`, as the names that begin so are the gateway's own.

ROOT = "/v1/stream/"
CONTROL = "__ds"
"""First segment of the paths that are no streams."""

_TO_NAME = {"/": ":", ":": "%3A", "%": "%25"}
_TO_PATH = {text: character for character, text in _TO_NAME.items()}
_IN_PATH = re.compile("[/:%]")
_IN_NAME = re.compile("%3A|%25|:")


def name_of(path: str) -> bytes:
    """Return the stream at a path, decoded and relative to the root; raises GatewayError."""
    if path.startswith(RESERVED.decode()):
        raise GatewayError("not_found", "a path that begins with `__` is not a stream")
    name = _IN_PATH.sub(lambda match: _TO_NAME[match[0]], path)
    fault = fault_of(name)
    if fault is not None:
        raise GatewayError("malformed", fault, pointer="/path/path")
    return name.encode()


def path_of(name: bytes) -> str | None:
    text = name.decode(errors="replace")
    path = _IN_NAME.sub(lambda match: _TO_PATH[match[0]], text)
    try:
        return path if name_of(path) == name else None
    except GatewayError:
        return None


def quoted(path: str) -> str:
    return quote(path, safe="/:@!$&'()*+,;=~")


BEGINNING = "-1"
NOW = "now"

_OFFSET = re.compile(r"([0-9]{1,20})[-_]([0-9]{1,20})")
"""With `_` as in earlier versions. The server of Yjs adds one to the number behind a `_`, and would
skip an entry."""
_CURSOR = re.compile(r"[0-9]{1,15}")
_EPOCH_MS = 1_728_432_000_000  # 2024-10-09, from which the protocol counts
_INTERVAL_MS = 20_000
_JITTER_S_MAX = 3600


def offset_of(entry_id: EntryId) -> str:
    """Return the place behind an entry; places sort as texts as their entries do."""
    return f"{entry_id.ms:020d}-{entry_id.seq:020d}"


def parse_offset(text: str, *, pointer: str) -> EntryId:
    """Read a place that `offset_of` has written; raises GatewayError if it is none."""
    match = _OFFSET.fullmatch(text)
    numbers = (0, 0) if match is None else (int(match[1]), int(match[2]))
    if match is None or max(numbers) > U64_MAX:
        raise GatewayError("malformed", "should be an offset of a stream", pointer=pointer)
    return EntryId(*numbers)


def parse_start(text: str) -> EntryId | From:
    """Read an offset, `-1` or `now`; raises GatewayError if it is none of them."""
    if text == BEGINNING:
        return MIN_ID
    return From.NOW if text == NOW else parse_offset(text, pointer="/query/offset")


def cursor_after(asked: str | None, now_ms: int, chance: Random) -> str:
    """Return the cursor of a live answer: the number of the current interval.

    Caches answer by it. It is above the client's own, so that nobody is answered by the same cache
    again and again.
    """
    interval = max(now_ms - _EPOCH_MS, 0) // _INTERVAL_MS
    if asked is not None and _CURSOR.fullmatch(asked) and int(asked) >= interval:
        jitter_ms = chance.randint(1, _JITTER_S_MAX) * 1000
        return str(int(asked) + max(jitter_ms // _INTERVAL_MS, 1))
    return str(interval)


NEXT_OFFSET = "Stream-Next-Offset"
UP_TO_DATE = "Stream-Up-To-Date"
CLOSED = "Stream-Closed"
CURSOR = "Stream-Cursor"
TTL = "Stream-TTL"
EXPIRES_AT = "Stream-Expires-At"
ENCODING = "Stream-SSE-Data-Encoding"

SAFE = {
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    # Streams have any content type. None of them may be a page that acts as this gateway.
    "Content-Security-Policy": "default-src 'none'; sandbox",
}

F = TypeVar("F", bound=Callable[..., Awaitable[Response]])


def root_path(request: Request) -> str:
    path: str = request.app.state.settings.root_path
    return path


def root_url(request: Request) -> str:
    """Return the URL below which streams are, as the client sees it."""
    is_there = bool(request.scope.get("root_path"))
    return f"{base_url(request.scope)}{'' if is_there else root_path(request)}{ROOT}"


def is_true(text: str | None) -> bool:
    """Tell whether a header says `true`; anything else counts as absent."""
    return text is not None and text.strip().lower() == "true"


def answer(status: int, headers: Mapping[str, str], body: bytes = b"") -> Response:
    return Response(body, status, headers)


def answers(operation: F) -> F:
    """Let an operation answer as the protocol says; problems get the headers, too."""

    @wraps(operation)
    async def answering(request: Request, *args: Any, **names: Any) -> Response:
        try:
            response = await operation(request, *args, **names)
        except (StreamError, GatewayError) as error:
            response = await _problem(request, error)
        response.headers.update(SAFE)
        return response

    return answering  # type: ignore[return-value]


async def _problem(request: Request, error: StreamError | GatewayError) -> Response:
    if status_of(code_of(error)) == 422:  # the protocol knows no other status for what is wrong
        pointer = error.pointer if isinstance(error, GatewayError) else None
        error = GatewayError("malformed", str(error), pointer=pointer)
    response = await answer_to(request, error)
    assert response is not None
    response.headers["Cache-Control"] = "no-store"
    if isinstance(error, ProducerRefusal):
        response.headers.update(error.headers)
    return response
