"""A line in the log for each act of management, and for each denial.

A line says who (`principal`, `key`), what (`what`, and the names it is about), from where
(`client`), and the outcome: `ok`, or the code of the problem. Reads and appends leave no line. A
name is shortened, and its control characters are escaped. No line contains a secret or a value.

The number of lines is bounded; where there are too many, a line tells how many were left out.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import islice
from typing import Any, Final, Protocol

from headgate.app.auth.principal import Need, Principal
from headgate.app.auth.usage import TokenBucket
from headgate.app.wire.names import text_of
from headgate.app.wire.problems import GatewayError, code_of
from headgate.engine.errors import StreamError
from headgate.engine.requests import Request

log = logging.getLogger("headgate.audit")

LINES_PER_S_MAX: Final = 100
BURST_MAX: Final = 1_000
"""Lines that may come at once."""

SHOWN_BYTES_MAX: Final = 256
"""Of a name."""

_LISTED_MAX = 10
"""Names of one line."""

_REPORT_S = 1.0
"""Pause after a line that was left out, before a line counts those left out."""

_NAMES = ("stream", "match", "group", "consumer", "to", "schedule", "connection")
"""Names in requests, and in the log as well."""

_NO_NAMES: Mapping[str, str] = {}

Later = Callable[[float, Callable[[], None]], object]
"""Calls something in so many seconds."""


class Served(Protocol):
    @property
    def address(self) -> str: ...

    @property
    def names(self) -> Mapping[str, str]: ...

    @property
    def operation(self) -> str | None: ...


_served: ContextVar[Served | None] = ContextVar("served", default=None)


serve: Callable[[Served], object] = _served.set
"""Notes the request or connection of this task, so that its lines have an origin."""


def served_address() -> str | None:
    served = _served.get()
    return None if served is None else served.address


class Audit:
    def __init__(self, clock: Callable[[], float], later: Later | None = None) -> None:
        self._clock = clock
        self._later = later
        self._lines = TokenBucket(LINES_PER_S_MAX, clock(), burst=BURST_MAX)
        self._left_out_count = 0

    @contextmanager
    def act(
        self, principal: Principal, what: Request[Any] | str, names: Mapping[str, str] = _NO_NAMES
    ) -> Iterator[None]:
        """Write a line when the context ends; `names` are read only then."""
        outcome = "ok"
        try:
            yield
        except (StreamError, GatewayError) as error:
            outcome = code_of(error)
            raise
        except asyncio.CancelledError:
            outcome = "unknown"  # the client has gone; it may have happened
            raise
        except BaseException:
            outcome = "internal"
            raise
        finally:
            self._write("act", principal, what, outcome, names)

    def note(self, principal: Principal, request: Request[Any], outcome: object) -> None:
        code = code_of(outcome) if isinstance(outcome, StreamError) else "ok"
        self._write("act", principal, request, code)

    def denial(
        self, error: GatewayError, principal: Principal | None, what: Request[Any] | Need | None
    ) -> None:
        """Write that somebody was denied something.

        `principal` None means a bad credential; `what` None means that nothing was examined yet.
        """
        self._write("denied", principal, what, error.code)

    def _write(
        self,
        event: str,
        principal: Principal | None,
        what: Request[Any] | Need | str | None,
        outcome: str,
        names: Mapping[str, str] = _NO_NAMES,
    ) -> None:
        if not log.isEnabledFor(logging.INFO):
            return
        if self._lines.wait_s(self._clock()):
            self._leave_out()
            return
        self._lines.take(1)
        fields: dict[str, object] = {}
        if principal is not None:
            fields["principal"] = shown(principal.id)
            if principal.key is not None:
                fields["key"] = shown(principal.key)
        if isinstance(what, str):
            fields["what"] = what
        elif what is not None:
            fields |= _described(what)
        fields |= {field: shown(name) for field, name in names.items()}
        log.info(event, extra=_origin() | fields | {"outcome": outcome})

    def _leave_out(self) -> None:
        if not self._left_out_count:
            later = self._later or asyncio.get_running_loop().call_later
            later(_REPORT_S, self._report)
        self._left_out_count += 1

    def _report(self) -> None:
        count, self._left_out_count = self._left_out_count, 0
        log.info("lines left out", extra={"left_out": count})


def shown(name: bytes | str) -> str:
    """Return a name as a line shows it: short, with control characters escaped."""
    raw = name if isinstance(name, bytes) else name.encode(errors="replace")
    text = text_of(raw[:SHOWN_BYTES_MAX])
    plain = "".join(
        char if char.isprintable() and char != "\\" else _escaped(char) for char in text
    )
    return plain if len(raw) <= SHOWN_BYTES_MAX else f"{plain}…"


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode()


def _described(what: Request[Any] | Need) -> dict[str, object]:
    fields: dict[str, object] = {}
    if isinstance(what, Request):
        fields["what"] = type(what).__name__
    for field in _NAMES:
        name = getattr(what, field, None)
        if isinstance(name, bytes):
            fields[field] = shown(name)
    streams = getattr(what, "streams", None)
    if streams is not None:
        fields["streams"] = [shown(stream) for stream in islice(streams, _LISTED_MAX)]
        fields["stream_count"] = len(streams)
    return fields


def _origin() -> dict[str, object]:
    served = _served.get()
    if served is None:
        return {}
    fields: dict[str, object] = {"client": served.address}
    named = served.names
    fields |= {name: shown(named[name]) for name in _NAMES if name in named}
    if served.operation is not None:
        fields["operation"] = served.operation
    return fields
