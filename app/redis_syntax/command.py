"""A command: its arity, permission, parser, errors and help.

The permissions here are shown to clients and refuse early. The exact ones follow from the request
that a command makes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from headgate.app.auth.grants import Verb
from headgate.app.backends.payloads import PayloadsBusy
from headgate.app.redis_syntax.catalog import CATALOG
from headgate.app.redis_syntax.replies import Status
from headgate.app.redis_syntax.words import INVALID_ID, AnyPlan, Bounds, CommandError, saying, shown
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
    """Return the error reply of Redis. The first word is a code."""
    text = exact_error_text(error)
    if text.isascii():
        return text
    return text.encode(errors="surrogateescape").decode(errors="replace")


def exact_error_text(error: errors.StreamError) -> str:
    """Like `error_text`, with surrogates for what is not UTF-8 in a name (PEP 383)."""
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


ANY_RIGHT: AbstractSet[Verb] = frozenset()
"""Of commands for everybody who has any right at all."""


@dataclass(frozen=True)
class Command:
    """A command; for `arity` see `has_arity`."""

    verbs: AbstractSet[Verb]  # one of them is needed, on whatever stream; none: any right will do


@dataclass(frozen=True)
class SmallReply(Command):
    plan: Callable[[Sequence[bytes]], AnyPlan]
    only_reads: bool = False

    def read(self, words: Sequence[bytes], bounds: Bounds) -> AnyPlan:
        del bounds
        return self.plan(words)


@dataclass(frozen=True)
class LargeReply(Command):
    plan: Callable[[Sequence[bytes], Bounds], AnyPlan]
    only_reads: bool = False

    def read(self, words: Sequence[bytes], bounds: Bounds) -> AnyPlan:
        """Return a plan whose reply keeps within the bounds."""
        return self.plan(words, bounds)


AnyCommand = SmallReply | LargeReply

CommandTable = dict[bytes, AnyCommand]
"""Commands by their names."""

SubcommandTable = dict[bytes, CommandTable]
"""Commands by the two words of their names."""


def with_help(table: SubcommandTable) -> SubcommandTable:
    """Return subcommands, with one for each command that lists the others."""
    return {
        name: {**commands, b"HELP": SmallReply(ANY_RIGHT, _help_on(name), only_reads=True)}
        for name, commands in table.items()
    }


def _help_on(name: bytes) -> Callable[[Sequence[bytes]], AnyPlan]:
    return lambda _: saying(help_lines(name.decode()))


def help_lines(name: str) -> list[Status]:
    lines = [f"{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"]
    usages = CATALOG[name.lower()].subcommands
    for usage, meaning in {**usages, "HELP": "Print this help."}.items():
        lines += [usage, f"    {meaning}"]
    return list(map(Status, lines))
