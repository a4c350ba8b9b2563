"""Offsets: a reader's positions in streams, as arithmetic: no gateway, no Spark, no clock.

An offset is what Spark keeps in its checkpoint: for each stream the id of the last entry read and
the stream's epoch, `{"orders": {"id": "1718000000000-0", "epoch": "5f2a…"}}`. It is exclusive:
reading continues behind it. Streams are totally ordered, so a range of ids is all that a task needs
to know.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

BEGINNING = "0-0"
SEQ_MAX = 2**64 - 1
EARLIEST = "earliest"
LATEST = "latest"

Offset = dict[str, dict[str, str | None]]
"""Per stream: `id`, the last entry that was read, and `epoch`, the life of the stream."""


class OffsetError(ValueError):
    """An option or a checkpoint has something that is not a position in a stream."""


class Id(NamedTuple):
    ms: int
    seq: int

    def __str__(self) -> str:
        return f"{self.ms}-{self.seq}"


class Position(NamedTuple):
    id: str
    epoch: str | None = None


@dataclass(frozen=True, slots=True)
class Range:
    """Entries that one task reads, in (after, to]; `is_cold` ones come from the lake."""

    stream: str
    after: str
    to: str
    epoch: str | None = None
    entries: int = 0
    is_cold: bool = False


def parse_id(text: str) -> Id:
    """Return the id written as `ms-seq`; `ms` alone means `ms-0`. Raises OffsetError."""
    match = re.fullmatch(r"([0-9]{1,20})(?:-([0-9]{1,20}))?", text, re.ASCII)
    if match is None:
        raise OffsetError(f"{text!r} is no entry id; one looks like 1718000000000-0")
    parsed = Id(int(match[1]), int(match[2] or 0))
    if max(parsed) > SEQ_MAX:
        raise OffsetError(f"{text!r} is no entry id: its numbers have at most 64 bits")
    return parsed


def later(first: str, second: str) -> str:
    return first if parse_id(first) >= parse_id(second) else second


def earlier(first: str, second: str) -> str:
    return second if later(first, second) == first else first


def is_before(first: str, second: str) -> bool:
    return parse_id(first) < parse_id(second)


def just_before(entry_id: Id) -> Id:
    """Return the id before this one; 0-0 stays 0-0."""
    if entry_id.seq > 0:
        return Id(entry_id.ms, entry_id.seq - 1)
    return Id(entry_id.ms - 1, SEQ_MAX) if entry_id.ms > 0 else entry_id


def before_ms(ms: int) -> str:
    """Return the last id before a time: as an offset, it reads from that time on."""
    return str(just_before(Id(max(ms, 0), 0)))


def parse_time(text: str, option: str) -> int:
    """Return unix ms of a text in milliseconds or ISO 8601 (UTC by default)."""
    if re.fullmatch(r"[0-9]{1,19}", text.strip(), re.ASCII):
        return int(text)
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise OffsetError(
            f"{option}: {text!r} is neither milliseconds nor a time such as 2026-01-31T12:00:00Z"
        ) from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    ms = int(moment.timestamp() * 1000)
    if ms < 0:
        raise OffsetError(f"{option}: {text!r} is before 1970")
    return ms


def parse_bounds(text: str, option: str) -> str | dict[str, str]:
    """Return `earliest`, `latest`, or per stream one of these or an id, from JSON."""
    word = text.strip()
    if word.lower() in {EARLIEST, LATEST}:
        return word.lower()
    wanted = f'{EARLIEST}, {LATEST} or JSON such as {{"orders": "1718000000000-0"}}'
    try:
        offsets = json.loads(word)
    except ValueError:
        raise OffsetError(f"{option}: {text!r} is not {wanted}") from None
    if not isinstance(offsets, dict):
        raise OffsetError(f"{option}: {text!r} is not {wanted}")
    bounds = {}
    for stream, value in offsets.items():
        if isinstance(value, dict):  # as a checkpoint has it
            value = value.get("id")  # noqa: PLW2901
        if not isinstance(value, str):
            raise OffsetError(f"{option}: of {stream!r}: {value!r} is not an id in quotes")
        if value.lower() in {EARLIEST, LATEST}:
            bounds[stream] = value.lower()
        else:
            try:
                bounds[stream] = str(parse_id(value))
            except OffsetError as error:
                raise OffsetError(f"{option}: of {stream!r}: {error}") from None
    return bounds


def resolve(
    bound: str | Mapping[str, str], stream: str, *, last_id: str, otherwise: str = EARLIEST
) -> str:
    """Return the id of a bound; `otherwise` is for streams that a JSON bound does not name."""
    word = bound if isinstance(bound, str) else bound.get(stream, otherwise)
    return {EARLIEST: BEGINNING, LATEST: last_id}.get(word, word)


def positions_of(offset: Mapping[str, object]) -> dict[str, Position]:
    positions = {}
    for stream, value in offset.items():
        if not isinstance(value, Mapping) or not isinstance(value.get("id"), str):
            raise OffsetError(
                f"the checkpoint says {value!r} of the stream {stream!r}, which is no offset of "
                "this data source: was it written by another one?"
            )
        epoch = value.get("epoch")
        positions[stream] = Position(
            str(parse_id(value["id"])), None if epoch is None else str(epoch)
        )
    return positions


def offset_of(positions: Mapping[str, Position]) -> Offset:
    return {stream: positions[stream]._asdict() for stream in sorted(positions)}


def literal_prefix(pattern: str) -> str:
    """Return a prefix of all names that a pattern matches in full; it may be too short."""
    if "|" in pattern:
        return ""
    plain = re.match(r"[A-Za-z0-9_:/@ -]*", pattern)
    assert plain is not None
    prefix = plain[0]
    if plain.end() < len(pattern) and pattern[plain.end()] in "*?{":
        prefix = prefix[:-1]  # the last one may be absent
    return prefix


def parts_of(
    counts: Sequence[int], *, entries_max: int, parts_min: int = 1
) -> tuple[list[int], int]:
    """Return the number of parts of each range, and the maximum entries of a task."""
    share = max(1, min(entries_max, -(-sum(counts) // max(parts_min, 1))))
    return [-(-count // share) for count in counts], share


def packed(ranges: Iterable[Range], share: int) -> list[tuple[Range, ...]]:
    tasks: list[list[Range]] = []
    room = 0
    for span in ranges:
        size = max(span.entries, 1)
        if size > room or not tasks:
            tasks.append([])
            room = share
        tasks[-1].append(span)
        room -= size
    return [tuple(task) for task in tasks]
