"""Request ids: each answer has one, so that a client can name what an operator finds in the log.

A client may choose it with the header `X-Request-Id`. Otherwise it is made here: a UUID of version
7, which begins with the time.
"""

import re
import secrets
from collections.abc import Iterable
from itertools import count
from typing import Final

from starlette.types import Scope

from headgate.engine.clock import SystemClock

HEADER: Final = "X-Request-Id"

_NAME: Final = b"x-request-id"
_SANE: Final = re.compile(rb"[!-~]{1,128}")
"""Visible ASCII of a bounded length: it is sent back, and stands in the log."""

_NUMBER_MAX: Final = 2**48 - 1
_random = secrets.randbits(26)
_OF_PROCESS: Final = f"-7{_random >> 14:03x}-{0x8000 | _random & 0x3FFF:04x}-"
"""Part of the ids of this process that others have not; its numbers also begin at random."""

_clock = SystemClock()
_numbers = count(secrets.randbits(47))


def new_id() -> str:
    """Return an id that no other request has."""
    now_ms = _clock.wall_ms()
    number = next(_numbers) & _NUMBER_MAX
    return f"{now_ms >> 16:08x}-{now_ms & 0xFFFF:04x}{_OF_PROCESS}{number:012x}"


def id_of(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """Return the id of a request with these headers: what its client has chosen, or a new one."""
    for name, value in headers:
        if name == _NAME:
            return sane_or_new(value)
    return new_id()


def sane_or_new(chosen: bytes) -> str:
    """Return the id that a client has chosen, or a new one if that cannot be one."""
    return new_id() if _SANE.fullmatch(chosen) is None else chosen.decode("ascii")


def request_id_of(scope: Scope) -> str:
    """Return the id of a request or of a WebSocket; one is made if it came by another server."""
    request_id: str | None = scope.get("request_id")
    if request_id is None:
        request_id = scope["request_id"] = id_of(scope.get("headers", ()))
    return request_id
