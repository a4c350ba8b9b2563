"""Words: the arguments of a command, and what can be read from them, in Redis's order and texts."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from headgate.app.backends.port import Reply, Status
from headgate.app.wire.ids import plain_ids
from headgate.app.wire.schemas.limits import DEFAULTS
from headgate.engine.entry import EntryId
from headgate.engine.errors import GroupNotFound, StreamError, StreamNotFound
from headgate.engine.limits import COMMAND_NAME_BYTES_MAX, QUEUES_MAX, U64_MAX
from headgate.engine.requests import Request
from headgate.engine.requests.keyspace import TellTime

T = TypeVar("T")

NOT_AN_INTEGER = "ERR value is not an integer or out of range"
SYNTAX = "ERR syntax error"
INVALID_ID = "ERR Invalid stream ID specified as stream command argument"

_INTEGER = re.compile(rb"-?[1-9][0-9]*|0")
_I64_MAX = 2**63 - 1


OK = Status("OK")


def done(outcome: object) -> Reply:
    """Return OK, the reply of a command whose outcome nobody asks for."""
    del outcome
    return OK


Finish = Callable[[Reply], Awaitable[Reply]]
"""Makes a reply of what was found. It takes as many turns as it needs."""


class CommandError(StreamError):
    """A command that cannot be run; its text is the reply."""


class Bounds(NamedTuple):
    """What one reply may hold: more would be in the way of everyone else."""

    entries_max: int = DEFAULTS.read_entries_max
    size_bytes_max: int = DEFAULTS.read_bytes_max  # names and values, about

    def shared(self, count: int) -> Bounds:
        """Return what each of so many replies may hold."""
        return Bounds(max(self.entries_max // count, 1), max(self.size_bytes_max // count, 1))


def _fail(error: StreamError) -> Reply:
    raise error


@dataclass(frozen=True)
class Plan(Generic[T]):
    """What a command asks of the engine, and what it makes of the answer."""

    request: Request[T]
    shape: Callable[[T], Reply]
    refuse: Callable[[StreamError], Reply] = _fail  # what it says of an error, or raises instead
    finish: Finish | None = None  # what its reply still needs, for which nothing is looked up

    def reply(self, outcome: T | StreamError) -> Reply:
        """Return the reply to what became of the request.

        Raises:
            StreamError: the command failed.
        """
        return self.refuse(outcome) if isinstance(outcome, StreamError) else self.shape(outcome)


AnyPlan = Plan[Any]


def failing(
    error: StreamError,
    request: Request[Any] = TellTime(),  # noqa: B008 it is a value
    refuse: Callable[[StreamError], Reply] = _fail,
) -> AnyPlan:
    """Return the plan of a command whose words make no sense.

    Args:
        error: what is wrong with the words.
        request: what Redis looks at before it looks at these words.
        refuse: what it says if that fails.
    """

    def shape(_: object) -> Reply:
        raise error

    return Plan(request, shape, refuse)


def where_missing(reply: Reply) -> Callable[[StreamError], Reply]:
    """Return what replies so where a stream or group is missing, and raises any other error."""

    def refuse(error: StreamError) -> Reply:
        if isinstance(error, StreamNotFound | GroupNotFound):
            return reply
        raise error

    return refuse


def integer(word: bytes, error: str = NOT_AN_INTEGER) -> int:
    """Read a signed 64-bit integer, strictly: no blanks, no `+`, no leading zeros.

    Raises:
        CommandError: it is none, with the text `error`.
    """
    if not _INTEGER.fullmatch(word) or len(word) > 20 or not -_I64_MAX - 1 <= int(word) <= _I64_MAX:
        raise CommandError(error)
    return int(word)


def strict_id(word: bytes, missing_seq: int = 0) -> EntryId:
    """Read an entry id where `-` and `+` have no meaning."""
    return EntryId.parse(word.decode("latin-1"), missing_seq=missing_seq)


def strict_ids(words: Sequence[bytes]) -> list[EntryId]:
    """Read entry ids where `-` and `+` have no meaning."""
    ids = plain_ids(b" ".join(words).decode("latin-1"), len(words))
    return [strict_id(word) for word in words] if ids is None else ids


def lax_id(word: bytes, missing_seq: int = 0) -> EntryId:
    """Read an entry id where `-` and `+` are the least and the greatest."""
    if word == b"-":
        return EntryId(0, 0)
    return EntryId(U64_MAX, U64_MAX) if word == b"+" else strict_id(word, missing_seq)


def range_start(word: bytes) -> EntryId:
    """Read the lower bound of a range; `(` excludes it."""
    if not _is_exclusive(word):
        return lax_id(word)
    bound = strict_id(word[1:])
    if bound.next() == bound:
        raise CommandError("ERR invalid start ID for the interval")
    return bound.next()


def range_end(word: bytes) -> EntryId:
    """Read the upper bound of a range; `(` excludes it."""
    if not _is_exclusive(word):
        return lax_id(word, U64_MAX)
    bound = strict_id(word[1:], U64_MAX)
    if bound.previous() == bound:
        raise CommandError("ERR invalid end ID for the interval")
    return bound.previous()


def check_names(*names: bytes) -> None:
    """Refuse names and keys that are too long to be held on to.

    Raises:
        CommandError: one is.
    """
    if max(map(len, names)) > COMMAND_NAME_BYTES_MAX:
        raise CommandError(f"ERR a name or key has at most {COMMAND_NAME_BYTES_MAX} bytes")


def check_queues(names: Sequence[bytes]) -> None:
    """Refuse a read of too many streams.

    Raises:
        CommandError: they are too many, or the name of one is too long.
    """
    if len(names) > QUEUES_MAX:
        raise CommandError(f"ERR one read takes at most {QUEUES_MAX} streams, not {len(names)}")
    check_names(*names)


def wrong_arity(command: str) -> CommandError:
    """Return the error of a command with too few or too many words."""
    return CommandError(f"ERR wrong number of arguments for '{command}' command")


def shown(name: bytes) -> str:
    """Return a name as it stands in an error text."""
    return name.decode(errors="replace")


def _is_exclusive(word: bytes) -> bool:
    return len(word) > 1 and word.startswith(b"(")
