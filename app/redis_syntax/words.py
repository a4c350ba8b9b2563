"""Parses the arguments of commands, with the checks and the error texts of Redis."""

from __future__ import annotations

import re
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from headgate.app.auth.principal import Need
from headgate.app.rdb.source import Share
from headgate.app.redis_syntax.replies import Reply, Status
from headgate.app.wire.ids import plain_ids
from headgate.app.wire.schemas.limits import DEFAULTS
from headgate.engine.entry import EntryId
from headgate.engine.errors import GroupNotFound, StreamError, StreamNotFound
from headgate.engine.limits import (
    COMMAND_NAME_BYTES_MAX,
    IDEMPOTENCY_ID_BYTES_MAX,
    PAGE_BYTES,
    PAGE_ENTRIES,
    QUEUES_MAX,
    U64_MAX,
)
from headgate.engine.requests import Request
from headgate.engine.requests.keyspace import GetDefaults, TellTime

T = TypeVar("T")

NOT_AN_INTEGER = "ERR value is not an integer or out of range"
SYNTAX = "ERR syntax error"
INVALID_ID = "ERR Invalid stream ID specified as stream command argument"

_INTEGER = re.compile(rb"-?[1-9][0-9]*|0")
_I64_MAX = 2**63 - 1


OK = Status("OK")


def done(outcome: object) -> Reply:
    del outcome
    return OK


Finish = Callable[[Reply], Awaitable[Reply]]
"""Completes a reply. It may take several turns of the event loop."""


class CommandError(StreamError):
    """A command that cannot be run. The text is the error reply."""


class Bounds(NamedTuple):
    """The bounds of one reply. A larger reply would delay other clients."""

    entries_max: int = DEFAULTS.read_entries_max
    size_bytes_max: int = DEFAULTS.read_bytes_max  # names and values, approximately
    are_open: bool = False  # a longer reply is sent while it is read

    def of_first_page(self) -> Bounds:
        """Return the bounds of the first page of a reply that may go on after it."""
        if not self.are_open:
            return self
        entries_max = min(self.entries_max, PAGE_ENTRIES)
        return Bounds(entries_max, min(self.size_bytes_max, 4 * PAGE_BYTES), are_open=True)

    def shared(self, count: int) -> Bounds:
        return Bounds(max(self.entries_max // count, 1), max(self.size_bytes_max // count, 1))


def _fail(error: StreamError) -> Reply:
    raise error


@dataclass(frozen=True)
class Plan(Generic[T]):
    """The request that a command makes to the engine, and how its reply is made."""

    request: Request[T]
    shape: Callable[[T], Reply]
    refuse: Callable[[StreamError], Reply] = _fail  # makes the reply to an error, or raises
    finish: Finish | None = None  # completes the reply, or makes it without the engine
    needs: Sequence[Need] = ()  # rights that the request does not tell
    # Makes the plan that is carried out in place of this one, where that takes several turns, and
    # room. The request of this one then says only what rights are needed.
    prepare: Callable[[Share], Awaitable[Plan[Any]]] | None = None
    # Returns the plan of a reply that does not fit into the bounds, given one that does not.
    open: Callable[[T | StreamError], Plan[Any] | None] | None = None

    def reply(self, outcome: T | StreamError) -> Reply:
        """Return the reply for an outcome. Raises StreamError if the command failed."""
        return self.refuse(outcome) if isinstance(outcome, StreamError) else self.shape(outcome)


AnyPlan = Plan[Any]


def saying(reply: Reply) -> AnyPlan:
    return Plan(TellTime(), lambda _: reply)


def telling(tell: Callable[[], Reply]) -> Callable[[Sequence[bytes]], AnyPlan]:
    """Return the reader of a command whose reply is made when its turn has come."""
    return lambda _: Plan(GetDefaults(), lambda _: tell())


def failing(
    error: StreamError,
    request: Request[Any] = TellTime(),  # noqa: B008 it is a value
    refuse: Callable[[StreamError], Reply] = _fail,
) -> AnyPlan:
    """Return a plan that fails because the arguments are wrong.

    `request` is what Redis checks before it parses these arguments. If it fails, that error comes
    first, as `refuse` makes it.
    """
    error = error.with_traceback(None)  # its frames lead to the plan, and so back to it

    def shape(_: object) -> Reply:
        raise error

    return Plan(request, shape, refuse)


def where_missing(reply: Reply) -> Callable[[StreamError], Reply]:
    """Return a handler that replies `reply` for a missing stream or group, and else raises."""

    def refuse(error: StreamError) -> Reply:
        if isinstance(error, StreamNotFound | GroupNotFound):
            return reply
        raise error

    return refuse


SHOWN_BYTES_MAX = 128
"""Part of an unknown command and its arguments that an error shows."""


def integer(word: bytes, error: str = NOT_AN_INTEGER) -> int:
    """Read a signed 64-bit integer without blanks, `+` or leading zeros; `error` is the text."""
    if not _INTEGER.fullmatch(word) or len(word) > 20 or not -_I64_MAX - 1 <= int(word) <= _I64_MAX:
        raise CommandError(error)
    return int(word)


def number(
    minimum: int, error: str, *, maximum: int = _I64_MAX, if_none: str = NOT_AN_INTEGER
) -> Callable[[bytes], int]:
    """Return a reader of integers within bounds.

    Args:
        minimum: the smallest.
        error: the text of the error about an integer out of bounds.
        maximum: the greatest.
        if_none: the text of the error about a word that is no integer.
    """

    def read(word: bytes) -> int:
        value = integer(word, if_none)
        if not minimum <= value <= maximum:
            raise CommandError(error)
        return value

    return read


def positive(error: str) -> Callable[[bytes], int]:
    """Return a reader of integers above 0, with one error for all other words."""
    return number(1, error, if_none=error)


timeout_ms = number(
    0, "ERR timeout is negative", if_none="ERR timeout is not an integer or out of range"
)
"""Reads a time to wait."""

_number_32 = number(
    -(2**31),
    f"ERR value is out of range, value must between {-(2**31)} and {2**31 - 1}",
    maximum=2**31 - 1,
)


def database(word: bytes) -> int:
    """Read the number of a database: there is only 0."""
    if _number_32(word):
        raise CommandError("ERR DB index is out of range")
    return 0


class Option(NamedTuple):
    """An option of a command: a word, and the words behind it that are its value."""

    read: Callable[..., Any]
    word_count: int = 1
    without: bytes | None = None  # another option, beside which this one is a fault


FLAG = Option(lambda: True, 0)
_NO_OPTION = Option(lambda: None, sys.maxsize)
"""What is no option lacks its value, whatever comes."""

Options = Mapping[bytes, Option]
"""The options of a command, by their names in capitals."""


def read_options(
    words: Sequence[bytes],
    at: int,
    options: Options,
    fault: Callable[[bytes], CommandError] = lambda _: CommandError(SYNTAX),
    until: bytes | None = None,
) -> tuple[dict[bytes, Any], int]:
    """Read options in any order. The last one of a name counts.

    Args:
        words: of the command.
        at: the place of the first option.
        options: those that there are.
        fault: makes the error about a word that is none, or lacks its value.
        until: the word that ends the options; None: they go on to the end.

    Returns:
        The values that are given, by name, and the place behind them.
    """
    given: dict[bytes, Any] = {}
    end = len(words)
    while at < end:
        name = words[at].upper()
        if name == until:
            break
        option = options.get(name, _NO_OPTION)
        behind = at + 1 + option.word_count
        if behind > end or option.without in given:
            raise fault(words[at])
        values = words[at + 1 : behind]
        given[name] = option.read(*values)
        at = behind
    return given, at


def strict_id(word: bytes, missing_seq: int = 0) -> EntryId:
    """Read an entry id. The words `-` and `+` are not ids here."""
    return EntryId.parse(word.decode("latin-1"), missing_seq=missing_seq)


def strict_ids(words: Sequence[bytes]) -> list[EntryId]:
    ids = plain_ids(b" ".join(words).decode("latin-1"), len(words))
    return [strict_id(word) for word in words] if ids is None else ids


def lax_id(word: bytes, missing_seq: int = 0) -> EntryId:
    """Read an entry id. The words `-` and `+` mean the least and the greatest id."""
    if word == b"-":
        return EntryId(0, 0)
    return EntryId(U64_MAX, U64_MAX) if word == b"+" else strict_id(word, missing_seq)


def range_start(word: bytes) -> EntryId:
    """Read the lower bound of a range. A bound that starts with `(` is excluded from the range."""
    if not _is_exclusive(word):
        return lax_id(word)
    bound = strict_id(word[1:])
    if bound.next() == bound:
        raise CommandError("ERR invalid start ID for the interval")
    return bound.next()


def range_end(word: bytes) -> EntryId:
    """Read the upper bound of a range. A bound that starts with `(` is excluded from the range."""
    if not _is_exclusive(word):
        return lax_id(word, U64_MAX)
    bound = strict_id(word[1:], U64_MAX)
    if bound.previous() == bound:
        raise CommandError("ERR invalid end ID for the interval")
    return bound.previous()


def check_names(*names: bytes) -> None:
    if max(map(len, names)) > COMMAND_NAME_BYTES_MAX:
        raise CommandError(f"ERR a name or key has at most {COMMAND_NAME_BYTES_MAX} bytes")


def check_idempotency_ids(*ids: bytes) -> None:
    if max(map(len, ids)) > IDEMPOTENCY_ID_BYTES_MAX:
        text = f"a producer ID or idempotent ID may have at most {IDEMPOTENCY_ID_BYTES_MAX} bytes"
        raise CommandError(f"ERR {text}")


def check_queues(names: Sequence[bytes]) -> None:
    if len(names) > QUEUES_MAX:
        raise CommandError(f"ERR one read takes at most {QUEUES_MAX} streams, not {len(names)}")
    check_names(*names)


def wrong_arity(command: str) -> CommandError:
    return CommandError(f"ERR wrong number of arguments for '{command}' command")


def shown(name: bytes) -> str:
    """Return a name as text for an error, with surrogates for what is not UTF-8."""
    return name.decode(errors="surrogateescape")


def beginning(name: bytes) -> str:
    """Return the beginning of an unknown name for an error. Like C, stop at a NUL."""
    return shown(name.partition(b"\0")[0][:SHOWN_BYTES_MAX])


def _is_exclusive(word: bytes) -> bool:
    return len(word) > 1 and word.startswith(b"(")
