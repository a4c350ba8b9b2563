"""Lines: the log of a process on standard error, a JSON object in each line.

All text is ASCII, with escapes for everything else. So nothing that a stranger sends can move the
cursor of a terminal, or end a line.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

REQUESTS: Final = "headgate.requests"
"""Name of the logger that has a line for each request."""

_OWN_ATTRIBUTES: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "taskName"}
"""What each record has. Everything else is a field of its line."""

log = logging.getLogger("headgate")


class JsonLines(logging.Formatter):
    """Makes a line of a record: `time`, `level`, `logger`, `event`, and the fields of the event."""

    def __init__(self, process: str | None = None) -> None:
        """Begin.

        Args:
            process: which process of the gateway writes, if there are several.
        """
        super().__init__()
        self._process = {} if process is None else {"process": process}

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
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


def _rfc_3339(unix_s: float) -> str:
    text = datetime.fromtimestamp(unix_s, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


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
    """Write the log as JSON lines to standard error.

    Args:
        level: from which on.
        process: which process of the gateway writes, if there are several.
        log_requests: write a line for each request, whatever the level is.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines(process))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.getLogger(REQUESTS).setLevel(logging.INFO if log_requests else logging.NOTSET)
    # One line per frame is for debugging only.
    quiet = logging.INFO if level == "debug" else logging.WARNING
    for name in ("uvicorn.error", "websockets", "asyncio"):
        logging.getLogger(name).setLevel(quiet)
    for name in ("httpcore", "httpx"):  # they write whole URLs, and a query may have a secret
        logging.getLogger(name).setLevel(logging.WARNING)


def log_what_is_printed() -> None:
    """Write into the log what Python prints on standard error by itself: warnings, tracebacks."""
    logging.captureWarnings(capture=True)
    sys.excepthook = _log_failure
    threading.excepthook = _log_failure_of_thread
    sys.unraisablehook = _log_ignored


def announce(event: str, *, level: int = logging.INFO, **facts: object) -> None:
    """Say something to whoever has started the gateway, whatever the level of the log is.

    On a terminal it is a line for people; anywhere else it is a line of the log.
    """
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
