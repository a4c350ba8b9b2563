"""Patterns: globs over the names of streams, and the cursor of a read over all that match."""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from headgate.engine.entry import EntryId
from headgate.engine.errors import Invalid, InvalidId
from headgate.engine.limits import U64_MAX


class PatternMoment(NamedTuple):
    """A moment of the engine. `engine/loop/pattern_notes.py` says where streams were then."""

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


# Globs: patterns for names with the syntax of Redis, byte by byte (`stringmatchlen`).
#
# A pattern is compiled to a regular expression. For each star except the last, the expression
# takes the first place where the text after the star matches, and never tries a later one, because
# the first place is as good as any later one. So a match takes at most (bytes of the pattern) *
# (bytes of the name) steps.
#
# In a range with an end above 127, the result in Redis depends on whether `char` is signed on its
# machine. Here bytes are always unsigned.

PATTERN_BYTES_MAX = 1024
"""Length of the longest pattern. Compiling so many stars takes 8 ms. Names rarely have a tenth of
it."""

_NOTHING = b"(?!)"
_ANYTHING = b"."
_STAR = b""


def matcher(pattern: bytes) -> Callable[[bytes], bool]:
    """Return a function that tells whether a name matches; Invalid if the pattern is too long."""
    if len(pattern) > PATTERN_BYTES_MAX:
        raise Invalid(f"pattern is longer than {PATTERN_BYTES_MAX} bytes")
    if pattern == b"*":
        return lambda name: True  # noqa: ARG005
    expression = re.compile(_expression(pattern), re.DOTALL)
    # Redis: only the empty pattern and a single star match the empty name.
    return lambda name: expression.fullmatch(name) is not None and (bool(name) or not pattern)


def literal_prefix(pattern: bytes) -> bytes:
    prefix, at = b"", 0
    while at < len(pattern) and pattern[at : at + 1] not in {b"*", b"?", b"["}:
        at += pattern[at : at + 1] == b"\\" and at + 1 < len(pattern)
        prefix += pattern[at : at + 1]
        at += 1
    return prefix


def _expression(pattern: bytes) -> bytes:
    first, *others = _runs(pattern)
    if not others:
        return first
    *between, last = others
    runs_between = b"".join(b"(?>.*?%b)" % run for run in between if run)
    return b"%b%b.*%b" % (first, runs_between, last)


def _runs(pattern: bytes) -> list[bytes]:
    runs = [b""]
    for part in _parts(pattern):
        if part == _STAR:
            runs.append(b"")
        else:
            runs[-1] += part
    return runs


def _parts(pattern: bytes) -> Iterator[bytes]:
    """Yield each part of a pattern as a regular expression for one byte, or `_STAR`."""
    at = 0
    while at < len(pattern):
        byte = pattern[at : at + 1]
        at += 1
        if byte == b"*":
            yield _STAR
        elif byte == b"?":
            yield _ANYTHING
        elif byte == b"[":
            part, at = _class(pattern, at)
            yield part
        else:
            if byte == b"\\" and at < len(pattern):
                byte = pattern[at : at + 1]
                at += 1
            yield re.escape(byte)


def _class(pattern: bytes, at: int) -> tuple[bytes, int]:
    """Read a class from behind its opening bracket; return it and the place after its end.

    A class without an end extends to the end of the pattern. A closing bracket ends the class even
    if it is the first member, but not if it is the end of a range or follows a backslash.
    """
    is_negated = pattern.startswith(b"^", at)
    at += is_negated
    members: list[bytes] = []
    while at < len(pattern) and pattern[at : at + 1] != b"]":
        left = len(pattern) - at
        if pattern[at : at + 1] == b"\\" and left >= 2:
            members.append(re.escape(pattern[at + 1 : at + 2]))
            at += 2
        elif left >= 3 and pattern[at + 1 : at + 2] == b"-":
            low, high = sorted((pattern[at : at + 1], pattern[at + 2 : at + 3]))
            members.append(b"%b-%b" % (re.escape(low), re.escape(high)))
            at += 3
        else:
            members.append(re.escape(pattern[at : at + 1]))
            at += 1
    at += 1
    if not members:
        return _ANYTHING if is_negated else _NOTHING, at
    return b"[%b%b]" % (b"^" if is_negated else b"", b"".join(members)), at
