"""Entry ids and entries. `EntryId` is the only thing that compares ids."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256
from itertools import repeat
from typing import Any, NamedTuple

import msgspec

from headgate.engine.errors import EntryTooLarge, Invalid, InvalidId
from headgate.engine.limits import (
    CHUNK_PARTS_MIN,
    COUNT_MAX,
    DELAY_MS_MAX,
    ENTRY_BYTES_MAX,
    ENTRY_FIELDS_MAX,
    KEY_BYTES_MAX,
    U64_MAX,
)

_NUMBER = re.compile(r"[ \t\n\v\f\r]*\+?([0-9]+)")
_TEXT_MAX = 127
_PLAIN_MAX = 20  # too short for a number beyond 64 bits


class EntryId(NamedTuple):
    """`ms-seq`: two unsigned 64-bit numbers, compared in that order."""

    ms: int
    seq: int

    def __str__(self) -> str:
        return f"{self.ms}-{self.seq}"

    def next(self) -> EntryId:
        """Return the smallest greater id; the greatest id is its own successor."""
        if self.seq < U64_MAX:
            return EntryId(self.ms, self.seq + 1)
        return EntryId(self.ms + 1, 0) if self.ms < U64_MAX else self

    def previous(self) -> EntryId:
        """Return the greatest smaller id; `0-0` is its own predecessor."""
        if self.seq > 0:
            return EntryId(self.ms, self.seq - 1)
        return EntryId(self.ms - 1, U64_MAX) if self.ms > 0 else self

    @classmethod
    def parse(cls, text: str, *, missing_seq: int = 0) -> EntryId:
        """Read `ms-seq` or `ms`; raises InvalidId.

        As lax as Redis: leading blanks, a leading `+` and leading zeros of each number pass.
        `missing_seq` is what `ms` alone means: 0 for starts, `U64_MAX` for ends.
        """
        ms_text, dash, seq_text = text.partition("-")
        is_plain = len(text) <= _PLAIN_MAX and text.isascii()  # as nearly all ids are
        if is_plain and ms_text.isdecimal() and seq_text.isdecimal():
            return cls(int(ms_text), int(seq_text))
        if len(text) > _TEXT_MAX:
            raise InvalidId(text)
        ms = _number(ms_text)
        seq = _number(seq_text) if dash else missing_seq
        if ms is None or seq is None:
            raise InvalidId(text)
        return cls(ms, seq)


MIN_ID = EntryId(0, 0)
MAX_ID = EntryId(U64_MAX, U64_MAX)


def _number(text: str) -> int | None:
    match = _NUMBER.fullmatch(text)
    if match is None:
        return None
    value = int(match[1])
    return value if value <= U64_MAX else None


Fields = tuple[bytes, ...]
"""Ordered pairs of bytes laid flat: name, value, name, value, … Names may repeat."""


class Entry(NamedTuple):
    """One element of a stream. A tuple that starts with its id, so that entries sort by id."""

    id: EntryId
    fields: Fields

    @property
    def size_bytes(self) -> int:
        return size_of(self.fields)


# The constructor of a NamedTuple is a Python function; that of a tuple is not. For long runs.
_make: Callable[..., Any] = tuple.__new__


def neighbours(first_id: EntryId, count: int) -> Iterator[EntryId]:
    """Return an id and those that follow it. Not for more than the sequence has room for."""
    ms, seq = first_id
    return map(_make, repeat(EntryId), zip(repeat(ms), range(seq, seq + count), strict=False))


def make_ids(numbers: Iterable[int]) -> list[EntryId]:
    """Return ids of numbers: time and sequence of the first, of the second, and so on."""
    each = iter(numbers)
    return list(map(_make, repeat(EntryId), zip(each, each, strict=True)))


def make_entries(ids: Iterable[EntryId], many: Sequence[Fields]) -> list[Entry]:
    return list(map(_make, repeat(Entry), zip(ids, many, strict=True)))


def size_of(fields: Fields) -> int:
    """Join names and values for their length: half the time of adding, unless they are large."""
    return sum(map(len, fields)) if len(fields) < 200 else len(b"".join(fields))


def size_in_chunk(fields: Fields) -> int:
    """Return the bytes of names and values, as an entry counts for its chunk.

    If many are empty, two of them count as a byte: unpacking them takes as long.
    """
    size_bytes = size_of(fields)
    return size_bytes if len(fields) < CHUNK_PARTS_MIN else max(size_bytes, len(fields) // 2)


def sizes_of(many: Iterable[Fields]) -> list[int]:
    return list(map(len, map(b"".join, many)))


def check_fields(fields: Fields, index: int) -> None:
    """Raise Invalid or EntryTooLarge unless these can be stored; `index` counts from 0."""
    if not fields or len(fields) % 2:
        raise Invalid(
            "an entry has a name and a value, or several of each",
            location=("drafts", index, "fields"),
        )
    if len(fields) > 2 * ENTRY_FIELDS_MAX:
        raise Invalid(
            f"an entry has at most {ENTRY_FIELDS_MAX} fields", location=("drafts", index, "fields")
        )
    if size_of(fields) > ENTRY_BYTES_MAX:
        raise EntryTooLarge(ENTRY_BYTES_MAX, location=("drafts", index, "fields"))


def value_of(fields: Fields, name: bytes) -> bytes | None:
    """Return the value of a field; the last one, if it repeats."""
    for at in range(len(fields) - 2, -1, -2):
        if fields[at] == name:
            return fields[at + 1]
    return None


def key_of(fields: Fields, name: bytes) -> bytes | None:
    """Return the value of a field, or its digest if it is long."""
    value = value_of(fields, name)
    if value is None or len(value) <= KEY_BYTES_MAX:
        return value
    return sha256(value).digest()


def is_storable(fields: Fields) -> bool:
    return len(fields) <= 2 * ENTRY_FIELDS_MAX and size_of(fields) <= ENTRY_BYTES_MAX


class PartialId(msgspec.Struct, frozen=True):
    """`ms-*`: the stream sets the sequence number. No tuple: a decoder must tell it from an id."""

    ms: int


IdRequest = EntryId | PartialId | None
"""The id in an append: an explicit id, `ms-*`, or None for `*`."""


class EntryTimes(NamedTuple):
    """The times of an entry: unix times in replies, steady times in the state (`clock.py`)."""

    deliver_at_ms: int | None  # groups deliver it no sooner; None: at once
    expires_at_ms: int | None  # groups deliver it no more from then on; None: it has no deadline

    def is_early(self, now_ms: int) -> bool:
        """Tell whether no group delivers the entry yet."""
        return self.deliver_at_ms is not None and now_ms < self.deliver_at_ms

    def is_over(self, now_ms: int) -> bool:
        """Tell whether no group delivers the entry any more."""
        return self.expires_at_ms is not None and now_ms >= self.expires_at_ms

    @property
    def timing(self) -> Timing:
        return Timing(deliver_at_ms=self.deliver_at_ms, expires_at_ms=self.expires_at_ms)

    def later_by(self, by_ms: int) -> EntryTimes:
        deliver_at_ms, expires_at_ms = self
        return EntryTimes(
            None if deliver_at_ms is None else deliver_at_ms + by_ms,
            None if expires_at_ms is None else expires_at_ms + by_ms,
        )


class Timing(NamedTuple):
    delay_ms: int | None = None
    deliver_at_ms: int | None = None
    ttl_ms: int | None = None
    expires_at_ms: int | None = None

    def or_none(self) -> Timing | None:
        return None if self == _NO_TIMING else self

    def at(self, now_ms: int, index: int) -> EntryTimes | None:
        """Return the unix times of an entry appended now, None if it has none; raises Invalid."""
        delay_ms, deliver_at_ms, ttl_ms, expires_at_ms = self
        if delay_ms is not None:
            if deliver_at_ms is not None:
                raise _contradiction(
                    "give either delay_ms or deliver_at_ms", index, "deliver_at_ms"
                )
            deliver_at_ms = now_ms + delay_ms
        if ttl_ms is not None:
            if expires_at_ms is not None:
                raise _contradiction("give either ttl_ms or expires_at_ms", index, "expires_at_ms")
            expires_at_ms = min(now_ms + ttl_ms, COUNT_MAX)
        if deliver_at_ms is not None:
            if deliver_at_ms - now_ms > DELAY_MS_MAX:
                text = f"an entry is delayed by {DELAY_MS_MAX} ms at most"
                raise _contradiction(text, index, "delay_ms" if delay_ms else "deliver_at_ms")
            if deliver_at_ms <= now_ms:
                deliver_at_ms = None
            elif expires_at_ms is not None and deliver_at_ms >= expires_at_ms:
                text = "it would expire before it is delivered"
                raise _contradiction(text, index, "expires_at_ms" if ttl_ms is None else "ttl_ms")
        if deliver_at_ms is None and expires_at_ms is None:
            return None
        return EntryTimes(deliver_at_ms, expires_at_ms)


def _contradiction(text: str, index: int, name: str) -> Invalid:
    return Invalid(text, location=("drafts", index, name))


_NO_TIMING = Timing()


class Draft(NamedTuple):
    id: IdRequest
    fields: Fields
    timing: Timing | None = None  # when groups may deliver it; None: at any time


def make_drafts(
    ids: Iterable[IdRequest],
    many: Iterable[Fields],
    timings: Iterable[Timing | None] = repeat(None),
) -> list[Draft]:
    """Return drafts of these ids and fields, as many as the shortest has."""
    return list(map(_make, repeat(Draft), zip(ids, many, timings, strict=False)))
