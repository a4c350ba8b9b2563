"""What is read of an ASGI scope: the request id, and the line in the log."""

import logging
import re
import secrets
import time
from collections.abc import Iterable, Mapping
from itertools import count
from typing import Final
from urllib.parse import parse_qsl, quote

from starlette.types import Scope

from headgate.app.runtime import logs
from headgate.app.transport.proxies import client_address
from headgate.engine.clock import SystemClock


class ServedScope:
    """A request or handshake in the audit log. Its scope is read only when needed."""

    __slots__ = ("_scope",)

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    @property
    def address(self) -> str:
        return client_address(self._scope)

    @property
    def names(self) -> Mapping[str, str]:
        """Return the names in the path, and the pattern in the query."""
        names: dict[str, str] = self._scope.get("path_params") or {}
        query = dict(parse_qsl(self._scope.get("query_string", b"").decode("latin-1")))
        return {**names, "match": query["match"]} if "match" in query else names

    @property
    def operation(self) -> str | None:
        operation: str | None = getattr(self._scope.get("route"), "operation_id", None)
        return "websocket" if not operation and self._scope["type"] == "websocket" else operation


def plain_path_of(scope: Scope) -> str:
    """Return the decoded path without the root path."""
    path: str = scope["path"].removeprefix(scope.get("root_path", ""))
    return path


def path_of(scope: Scope) -> str:
    """Return the path without the root path, encoded as in the URL."""
    return quote(plain_path_of(scope), safe="/:@!$&'()*+,;=~")


# Request ids: each answer has one, so that a client can name what an operator finds in the log.
#
# A client may choose it with the header `X-Request-Id`. Otherwise it is made here: a UUID of
# version 7, which begins with the time.

HEADER: Final = "X-Request-Id"

_NAME: Final = b"x-request-id"
_SANE: Final = re.compile(rb"[!-~]{1,128}")
"""Visible ASCII of a bounded length: it is sent back, and stands in the log."""

_NUMBER_MAX: Final = 2**48 - 1
_random = secrets.randbits(26)
_OF_PROCESS: Final = f"7{_random >> 14:03x}-{0x8000 | _random & 0x3FFF:x}"
"""Part of the ids of this process that others have not; its numbers also begin at random."""

_clock = SystemClock()
_numbers = count(secrets.randbits(47))


def new_id() -> str:
    at_ms = f"{_clock.wall_ms():012x}"
    return f"{at_ms[:8]}-{at_ms[8:]}-{_OF_PROCESS}-{next(_numbers) & _NUMBER_MAX:012x}"


def id_of(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """Return the request id in the headers, or a new one."""
    for name, value in headers:
        if name == _NAME:
            return sane_or_new(value)
    return new_id()


def sane_or_new(chosen: bytes) -> str:
    return new_id() if _SANE.fullmatch(chosen) is None else chosen.decode("ascii")


def request_id_of(scope: Scope) -> str:
    """Return the id of a request or WebSocket; created if another server passed it on."""
    request_id: str | None = scope.get("request_id")
    if request_id is None:
        request_id = scope["request_id"] = id_of(scope.get("headers", ()))
    return request_id


# Request log: a line for each request, if the operator asks for that.
#
# It has the route and not the path, and nothing of the query: a path may name what is nobody's
# business, and a query may have a ticket in it.

_PRINCIPAL_LENGTH_MAX: Final = 256


def note_request(scope: Scope, status: int, began_s: float) -> None:
    """Log a request; status 0: the client was gone. `began_s` is from `time.perf_counter`."""
    access = scope.get("access")
    facts = logs.RequestFacts(
        scope.get("method", "GET"),
        getattr(scope.get("route"), "path", None),
        status,
        (time.perf_counter() - began_s) * 1000,
        None if access is None else access.principal.id[:_PRINCIPAL_LENGTH_MAX],
        request_id_of(scope),
    )
    logs.note_request(facts)


# Logged: what uvicorn may write into the log.
#
# At the level `debug` it writes a line for each WebSocket, with the whole URL. A query may have a
# ticket in it, under a name that is written in many ways (`%74icket`). So the log has no queries.

_LOGGER = "uvicorn.error"


def leave_out_queries() -> None:
    logging.getLogger(_LOGGER).addFilter(_without_queries)


def _without_queries(record: logging.LogRecord) -> bool:
    if isinstance(record.args, tuple):
        record.args = tuple(map(_without_query, record.args))
    return True


def _without_query(value: object) -> object:
    if not isinstance(value, str):
        return value
    path, mark, _ = value.partition("?")
    return f"{path}{mark}…" if mark else path
