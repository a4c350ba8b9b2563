"""Failures between the gateway and the servers, and their errors for users.

A command fails with `NotSent` or `Lost` if the network or a server fails, with a `ResponseError` of
redis-py if the server refuses it, and with a `Fault` if one of our functions does: its error reply
is `HG <name> <facts>`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any
from urllib.parse import unquote_to_bytes

from redis.exceptions import OutOfMemoryError, ResponseError

from headgate.engine import errors
from headgate.engine.entry import EntryId, IdRequest, PartialId
from headgate.engine.errors import StreamError, Unavailable

_OURS = "HG "


class NotSent(Exception):
    pass


class Lost(Exception):
    """The server may have got the command; its reply, or its durability, is unknown."""


class Fault(Exception):
    def __init__(self, name: str, facts: Sequence[bytes]) -> None:
        super().__init__(name)
        self.name = name
        self.facts = facts


def fault_of(error: ResponseError) -> Fault | None:
    """Return the fault in an error reply, or None if the server itself made the reply."""
    # redis-py removes the first word of some errors only; ours stays.
    text = str(error)
    if not text.startswith(_OURS):
        return None
    name, *facts = text[len(_OURS) :].split(" ")
    return Fault(name, [unquote_to_bytes(fact) for fact in facts])


def is_wrong_type(error: ResponseError) -> bool:
    text = str(error)
    return "WRONGTYPE" in text or "wrong kind of value" in text


class as_stream_errors:  # noqa: N801  it is used as a context manager alone
    """Raise the port's errors in place of redis-py's and ours.

    Every request passes through this; a generator as context manager would take 2 µs more.
    """

    __slots__ = ("_group", "_stream")

    def __init__(self, stream: bytes, group: bytes = b"") -> None:
        self._stream = stream
        self._group = group

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        match error:
            case Fault():
                raise stream_error(error, self._stream, self._group) from None
            case ResponseError():
                raise _of_server(error, self._stream, self._group) from None
            case NotSent():
                raise errors.Disconnected(str(error)) from None
            case Lost():
                raise errors.AnswerLost(str(error)) from None


def _of_server(error: ResponseError, stream: bytes, group: bytes) -> StreamError:
    text = str(error)
    if isinstance(error, OutOfMemoryError) or text.startswith("OOM"):
        return errors.MemoryFull()
    if is_wrong_type(error):
        return errors.WrongType(stream)
    if text.startswith("NOGROUP"):
        return errors.GroupNotFound(stream, group)
    if "CROSSSLOT" in text or "hash to the same slot" in text:
        return errors.SeveralSlots("requests")
    return Unavailable(f"the server refuses the request: {text}")


def stream_error(fault: Fault, stream: bytes, group: bytes) -> StreamError:
    facts = fault.facts
    if fault.name in _MADE:
        return _MADE[fault.name](*facts)
    match fault.name:
        case "StreamNotFound" | "ClosedToAppends" | "StreamExists":
            error: StreamError = getattr(errors, fault.name)(stream)
            return error
        case "EntryNotFound":
            return errors.EntryNotFound(stream, read_id(facts[0]))
        case "GroupNotFound":
            return errors.GroupNotFound(stream, group, stream_exists=facts[0] == b"1")
        case "GroupExists":
            return errors.GroupExists(stream, group)
    raise AssertionError(f"no error is named {fault.name}")


_COUNTERS = {
    b"max_deleted_id": "the greatest id ever deleted",
    b"newest": "the id of the newest entry",
    b"length": "the number of entries",
}
"""Lower bounds of counters, in words."""

_MADE: dict[str, Callable[..., StreamError]] = {
    "OutOfReach": errors.OutOfReach,
    "StreamsChanged": errors.StreamsChanged,
    "IdsExhausted": errors.IdsExhausted,
    "IdempotencyMismatch": errors.IdempotencyMismatch,
    "CounterTooLow": lambda field, than: errors.CounterTooLow(
        field.decode(), than.decode(), _COUNTERS[than]
    ),
    "IdNotGreater": lambda wanted, last_id, index: errors.IdNotGreater(
        read_wanted(wanted), last_id=read_id(last_id), index=int(index)
    ),
    "LastIdMismatch": lambda expected, last_id: errors.LastIdMismatch(
        expected=read_id(expected), last_id=read_id(last_id)
    ),
    "Invalid": lambda text, *location: errors.Invalid(
        text.decode(), location=tuple(part.decode() for part in location)
    ),
    "StreamTooLarge": lambda limit: errors.StreamTooLarge("bytes in one dump", int(limit)),
    "LimitReached": lambda what, limit: errors.LimitReached(what.decode(), int(limit)),
}
"""Errors that are made of the facts of their fault alone."""


def read_id(text: bytes) -> EntryId:
    ms, _, seq = text.partition(b"-")
    return EntryId(int(ms), int(seq))


def by_name(words: Sequence[Any]) -> dict[bytes, Any]:
    """Return alternating names and values as a table."""
    return dict(zip(words[::2], words[1::2], strict=True))


def read_wanted(text: bytes) -> IdRequest:
    if text.endswith(b"-*"):
        return PartialId(int(text[:-2]))
    return None if text == b"*" else read_id(text)
