"""Errors: the table of the texts that Redis has for the errors of the engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headgate.app.backends.payloads import PayloadsBusy
from headgate.app.redis_syntax.words import INVALID_ID, CommandError, shown
from headgate.engine import errors
from headgate.engine.entry import MIN_ID

_XSETID = "ERR The ID specified in XSETID is smaller than"
_COUNTERS = {
    "max_deleted_id": f"{_XSETID} current max_deleted_entry_id",
    "newest": f"{_XSETID} the target stream top item",
    "length": (
        "ERR The entries_added specified in XSETID is smaller than the target stream length"
    ),
}


def error_text(error: errors.StreamError) -> str:
    """Return why a command failed, as Redis says it. The first word is a code."""
    text = exact_error_text(error)
    if text.isascii():
        return text
    return text.encode(errors="surrogateescape").decode(errors="replace")


def exact_error_text(error: errors.StreamError) -> str:
    """Return the same, with surrogates for what is not UTF-8 in a name (PEP 383)."""
    say = next(_TEXTS[kind] for kind in type(error).__mro__ if kind in _TEXTS)
    return say(error)


def _not_greater(error: errors.IdNotGreater) -> str:
    if error.wanted == MIN_ID:
        return "ERR The ID specified in XADD must be greater than 0-0"
    return "ERR The ID specified in XADD is equal or smaller than the target stream top item"


def _no_group(error: errors.GroupNotFound) -> str:
    key, group = shown(error.stream), shown(error.group)
    return f"NOGROUP No such key '{key}' or consumer group '{group}'"


_TEXTS: dict[type[errors.StreamError], Callable[[Any], str]] = {
    CommandError: str,  # its text is already a reply
    errors.StreamNotFound: lambda _: "ERR no such key",
    errors.GroupNotFound: _no_group,
    errors.GroupExists: lambda _: "BUSYGROUP Consumer Group name already exists",
    errors.IdNotGreater: _not_greater,
    errors.IdsExhausted: lambda _: (
        "ERR The stream has exhausted the last possible ID, unable to add more items"
    ),
    errors.InvalidId: lambda _: INVALID_ID,
    errors.EntryTooLarge: lambda _: "ERR Elements are too large to be stored",
    errors.WrongType: lambda _: "WRONGTYPE Operation against a key holding the wrong kind of value",
    errors.SeveralSlots: lambda _: "CROSSSLOT Keys in request don't hash to the same slot",
    errors.CounterTooLow: lambda error: _COUNTERS[error.than],
    errors.MemoryFull: lambda _: "OOM command not allowed when used memory > 'maxmemory'.",
    errors.NotLeader: lambda _: "READONLY You can't write against a read only replica.",
    errors.Disconnected: lambda error: f"CLUSTERDOWN {error}",
    errors.Draining: lambda error: f"ERR {error}",
    PayloadsBusy: lambda error: f"TRYAGAIN {error}",  # as a cluster says: send it again
    errors.Unavailable: lambda error: f"MISCONF {error}",  # Redis: the disk does not accept writes
    errors.StreamError: lambda error: f"ERR {error}",  # Redis has no such error
}
