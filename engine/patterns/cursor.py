"""Moments: the cursor of a pattern names them, and no streams."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import NamedTuple

import msgspec

from headgate.engine.entry import EntryId
from headgate.engine.errors import InvalidId
from headgate.engine.limits import U64_MAX


class PatternMoment(NamedTuple):
    """A moment of the engine. `engine/loop/patterns/moments.py` says where streams were then."""

    run: int  # of the engine's life; the number has a meaning in it alone
    number: int  # later moments of a run have greater ones
    at_ms: int  # wall time, which never goes back within a run
    clock_set_ms: int  # by how much the clock had been set
    epoch: int  # the greatest of all streams that had been made


class PatternCursor(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """A place in all streams that match a pattern. Its size does not depend on their number.

    Reading goes in rounds, from one moment to the next. A round reads each stream from where it was
    at the first moment to where it was at the second, in order of names. So a place within a round
    is a name. An initial cursor has no moment: every stream is read behind `start`.
    """

    start: EntryId | None = None
    done: PatternMoment | None = None  # everything up to here was read
    doing: PatternMoment | None = None  # and up to here, of the streams before `stream`
    stream: bytes = b""
    at: EntryId | None = None  # `stream` itself was read up to here
    ahead: tuple[tuple[int, EntryId], ...] = ()  # streams, as digests, read beyond these moments
    follower: int = 0  # who read last: it may still know more than stands here

    def __str__(self) -> str:
        """Return the cursor as text, of letters, digits, `-` and `_`. No id begins as it does."""
        return urlsafe_b64encode(_encode(self)).decode().rstrip("=")

    @classmethod
    def parse(cls, text: str) -> PatternCursor:
        """Read the text of a cursor.

        Raises:
            InvalidId: the text is no cursor.
        """
        if len(text) > _TEXT_MAX:
            raise InvalidId(text[:_TEXT_SHOWN])
        try:
            cursor = _decode(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        except ValueError:
            raise InvalidId(text[:_TEXT_SHOWN]) from None
        ids = [cursor.start, cursor.at, *(place for _, place in cursor.ahead)]
        numbers = [*(cursor.done or ()), *(cursor.doing or ())]
        numbers += [number for place in ids if place is not None for number in place]
        begins = (cursor.start is None) != (cursor.done is None)
        if not begins or not all(0 <= number <= U64_MAX for number in numbers):
            raise InvalidId(text[:_TEXT_SHOWN])
        return cursor


_TEXT_MAX = 4096
"""Characters of a cursor: its longest part is a name of a thousand bytes."""

_TEXT_SHOWN = 64

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(PatternCursor).decode
