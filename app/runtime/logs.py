"""The log: its format and setup, and rate limits for lines that clients can cause."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext, suppress
from datetime import UTC, datetime
from json.encoder import encode_basestring_ascii as _quoted
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TextIO

import click

from headgate.engine.clock import SystemClock

if TYPE_CHECKING:
    from sys import UnraisableHookArgs


log = logging.getLogger("headgate")

_SECOND = 1.0


class BoundedLog:
    def __init__(self, lines_per_s_max: int) -> None:
        self._lines_per_s_max = lines_per_s_max
        self._count = 0  # in this second
        self._timer: asyncio.TimerHandle | None = None  # set while a second is under way

    def warn(self, event: str, facts: Mapping[str, object]) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_SECOND, self._begin_anew, event)
        self._count += 1
        if self._count <= self._lines_per_s_max:
            log.warning(event, extra=dict(facts))

    def _begin_anew(self, event: str) -> None:
        left_out = self._count - self._lines_per_s_max
        self._timer, self._count = None, 0
        if left_out > 0:
            log.warning(event, extra={"left_out": left_out})


# Lines: the log of a process on standard error, a JSON object in each line.
#
# All text is ASCII, with escapes for everything else. So nothing that a stranger sends can move
# the cursor of a terminal, or end a line.

REQUESTS: Final = "headgate.requests"
"""Name of the logger that has a line for each request."""

_OWN_ATTRIBUTES: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "taskName"}
"""Attributes of each record. Everything else is a field of its line."""


class RequestFacts(NamedTuple):
    method: str
    route: str | None
    status: int
    ms: float
    principal: str | None
    request_id: str


_SOON_S = 0.05
_READY_MAX = 100
"""Lines that are written together."""


class JsonLines(logging.Formatter):
    """Formats records as JSON: `time`, `level`, `logger`, `event`, and the event's fields."""

    def __init__(self, process: str | None = None) -> None:
        super().__init__()
        self._process = {} if process is None else {"process": process}

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": _rfc_3339(record.created),
            "level": record.levelname,
            "logger": record.name,
            "event": _text_of(record),
            **self._process,
        }
        line |= {name: value for name, value in vars(record).items() if name not in _OWN_ATTRIBUTES}
        if record.exc_info:
            line["exc_info"] = self.formatException(record.exc_info)
        if record.stack_info:
            line["stack_info"] = record.stack_info
        return _json_of(line)


class Lines(logging.StreamHandler[TextIO]):
    """Writes records at once, and lines about requests with a delay, several together.

    One system call takes longer than everything else about a line, and formatting lines in a row
    takes half as long as between requests. A process that is killed loses the lines of its last 50
    ms.
    """

    def __init__(self, process: str | None = None) -> None:
        super().__init__(sys.stderr)
        self.setFormatter(JsonLines(process))
        self._ready: list[tuple[int, RequestFacts]] = []
        named = "" if process is None else f', "process": {json.dumps(process)}'
        self._head = f'Z", "level": "INFO", "logger": "{REQUESTS}", "event": "request"{named}, '
        self._clock = SystemClock()

    def write_soon(self, facts: RequestFacts) -> None:
        """Write a line about a request with a delay. Call it in the event loop."""
        if not self._ready:
            asyncio.get_running_loop().call_later(_SOON_S, self._write_ready)
        elif len(self._ready) == _READY_MAX:
            self._write_ready()
        self._ready.append((self._clock.wall_ms(), facts))

    def close(self) -> None:
        self._write_ready()
        super().close()

    def _write_ready(self) -> None:
        ready, self._ready = self._ready, []
        text = "".join(self._lines_of(ready))
        with self.lock or nullcontext(), suppress(ValueError, OSError):  # nobody reads it any more
            self.stream.write(text)
            self.stream.flush()

    def _lines_of(self, ready: Iterable[tuple[int, RequestFacts]]) -> Iterator[str]:
        known_s, text = -1, ""
        for at_ms, facts in ready:
            at_s, part_ms = divmod(at_ms, 1000)
            if at_s != known_s:
                known_s, text = at_s, _rfc_3339(at_s).removesuffix("000Z")
            yield f'{{"time": "{text}{part_ms:03d}{self._head}{_members(facts)}}}\n'


_lines: Lines | None = None  # of this process; None: it writes its log in its own way


def _rfc_3339(unix_s: float) -> str:
    text = datetime.fromtimestamp(unix_s, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def _members(facts: RequestFacts) -> str:
    """Return facts as JSON members, four times faster than `_json_of`."""
    method, route, status, ms, principal, request_id = facts
    return (
        f'"method": {_quoted(method)}, "route": {"null" if route is None else _quoted(route)}, '
        f'"status": {status}, "ms": {ms:.3f}, '
        f'"principal": {"null" if principal is None else _quoted(principal)}, '
        f'"request_id": {_quoted(request_id)}'
    )


def _text_of(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # noqa: BLE001  a library has given the wrong arguments
        return str(record.msg)


def _json_of(line: Mapping[str, Any]) -> str:
    try:
        return json.dumps(line, default=str, allow_nan=False)
    except (TypeError, ValueError):  # a key that is no text, a number that is none, a cycle
        return json.dumps({name: str(value) for name, value in line.items()})


def set_up_logging(level: str, process: str | None = None, *, log_requests: bool = False) -> None:
    """Log JSON lines to standard error; `log_requests` ignores the level."""
    global _lines  # noqa: PLW0603  there is one log in a process
    _lines = handler = Lines(process)
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.getLogger(REQUESTS).setLevel(logging.INFO if log_requests else logging.NOTSET)
    # One line per frame is for debugging only.
    quiet = logging.INFO if level == "debug" else logging.WARNING
    for name in ("uvicorn.error", "websockets", "asyncio"):
        logging.getLogger(name).setLevel(quiet)
    for name in ("httpcore", "httpx"):  # they write whole URLs, and a query may have a secret
        logging.getLogger(name).setLevel(logging.WARNING)


def note_request(facts: RequestFacts) -> None:
    if _lines is None:
        logging.getLogger(REQUESTS).info("request", extra=facts._asdict())
    else:
        _lines.write_soon(facts)


def log_prints_of_python() -> None:
    """Log what Python itself prints on standard error: warnings, tracebacks."""
    logging.captureWarnings(capture=True)
    sys.excepthook = _log_failure
    threading.excepthook = _log_failure_of_thread
    sys.unraisablehook = _log_ignored


def announce(event: str, *, level: int = logging.INFO, **facts: object) -> None:
    """Tell whoever started the gateway, whatever the log level is; as plain text on a terminal."""
    if sys.stderr.isatty():
        click.echo(event, err=True)
        return
    named = {"name": log.name, "levelno": level, "levelname": logging.getLevelName(level)}
    record = logging.makeLogRecord({**named, "msg": event, **facts})
    click.echo(JsonLines().format(record), err=True)


def _log_failure(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    log.critical("process failed", exc_info=(kind, error, trace))


def _log_failure_of_thread(failure: threading.ExceptHookArgs) -> None:
    error = failure.exc_value or failure.exc_type()
    facts = {"thread": None if failure.thread is None else failure.thread.name}
    log.error("thread failed", exc_info=error, extra=facts)


def _log_ignored(ignored: UnraisableHookArgs) -> None:
    log.error("error ignored", exc_info=ignored.exc_value, extra={"where": repr(ignored.object)})


_LARGE_BYTES = 8 * 2**20
"""A journal smaller than this is loaded before anybody could read about it."""

_STEP_PERCENT = 10
"""Step between two lines of the log about the progress."""


def show_progress(done: int, total: int, what: str = "Loading") -> None:
    """Print the progress in bytes on standard error, unless loading is done quickly."""
    if total < _LARGE_BYTES:
        return
    end = "\n" if done == total else ""
    percentage = done * 100 // total
    click.echo(f"\r{what} {total / 2**20:.0f} MiB: {percentage} %{end}", nl=False, err=True)


def progress_of_gateway() -> Callable[[int, int], None]:
    return show_progress if sys.stderr.isatty() else _LoggedProgress().note


class _LoggedProgress:
    def __init__(self) -> None:
        self._percent = 0

    def note(self, done: int, total: int) -> None:
        percent = done * 100 // max(total, 1)
        if total >= _LARGE_BYTES and percent >= self._percent + _STEP_PERCENT:
            self._percent = percent
            log.info("loading", extra={"percent": percent, "total_bytes": total})
