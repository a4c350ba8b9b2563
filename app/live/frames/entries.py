"""Frames with thousands of entries, encoded without a model for each entry."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain, islice
from typing import Any, Literal, NamedTuple

import msgspec

from headgate.app.live.followed import RowsBatch
from headgate.app.live.frames.server import Acked, Ok
from headgate.app.wire.encoding import (
    LastBatches,
    changes_of,
    delivery_wire,
    entries_wire,
    gap_wire,
    is_position_news,
    row_wire,
    stream_delivery_wire,
    stream_entries_wire,
    stream_gap_wire,
)
from headgate.app.wire.problems import FrameTooLarge
from headgate.engine.entry import Entry, EntryId
from headgate.engine.replies import Delivery, GroupsRead, Outcome, PatternRead, Row, StreamRead

_SETTLED_AT_ONCE = 1_000
"""Ids whose outcomes make one part of an answer."""

_OUTCOMES = {outcome: f'","outcome":"{outcome}"}}' for outcome in Outcome}
"""Ends of the results for an id: to format an outcome takes longer than everything before it."""

_encode = msgspec.json.Encoder().encode


FRAME_BYTES_MAX = 2**20
"""Bytes of a frame with several entries: many clients take no more unless they are told to."""

_HEAD_BYTES_MAX = 2**14
"""Bytes of a frame beside its entries: names, ids that are gone, a position, some gaps."""

_GAPS_MAX = 8
"""Gaps in a frame with entries, each with the name of its stream."""


class _Array(NamedTuple):
    whole: Any  # msgspec.Raw of the text
    text: bytes
    ends: list[int]  # where each of them ends, with what is behind it


def _array(wire: Iterable[object]) -> _Array:
    encoded = list(map(_encode, wire))
    ends = list(accumulate((len(each) + 1 for each in encoded), initial=1))[1:]
    return _array_of(b",".join(encoded), ends)


def _array_of(members: bytes, ends: list[int]) -> _Array:
    text = b"[%b]" % members
    return _Array(msgspec.Raw(text), text, ends)


_EMPTY = _array(())


def _size_bytes(array: _Array) -> int:
    return len(array.text)


_last_entries = LastBatches(lambda read: _array(entries_wire(read)), _size_bytes)
_last_stream_entries = LastBatches(lambda read: _array(stream_entries_wire(read)), _size_bytes)


class FrameOf(NamedTuple):
    sub: str
    bytes_max: int | None = None  # that the client takes; None: it does not say it
    kind: Literal["entries", "rows"] = "entries"


def entries_frames(of: FrameOf, read: StreamRead, *, credit_left: int) -> Iterable[str]:
    """Return the `entries` frames of a stream: one, unless it would be too large.

    While they are generated, FrameTooLarge is raised if an entry alone is too large for the client.
    """
    first = None if read.gap is None else {"gap": gap_wire(read.gap)}
    last = {"position": str(read.next_after)} if is_position_news(read) else None
    return _frames(of, _last_entries.encoded(read), read.entries, credit_left, first, last)


def rows_frames(of: FrameOf, batch: RowsBatch) -> Iterable[str]:
    """Return the `rows` frames of a walk over a table. Nobody can resume among them."""
    first = dict[str, object]()
    if batch.is_again:
        first["again"] = True
    if batch.gap is not None:
        first["gap"] = gap_wire(batch.gap)
    rows, left = batch.page.rows, batch.credit_left or 0
    return _frames(of._replace(kind="rows"), _array(map(row_wire, rows)), rows, left, first, None)


def changes_frames(
    of: FrameOf, read: StreamRead, fields: tuple[bytes, bytes], *, credit_left: int
) -> Iterable[str]:
    """Return the `rows` frames of entries that change a table with these fields."""
    changes, last = changes_of(read, fields), {"position": str(read.next_after)}
    array = _array(wire for _, wire in changes)
    entries = [entry for entry, _ in changes]
    return _frames(of._replace(kind="rows"), array, entries, credit_left, None, last)


class LastFrame:
    """The last frame of a batch: those who follow a stream side by side are sent the same one."""

    __slots__ = ("_asked", "_frame", "_read")

    def __init__(self) -> None:
        self._read: StreamRead | None = None
        self._asked: tuple[FrameOf, int] | None = None
        self._frame: str | None = None

    def of(self, of: FrameOf, read: StreamRead, credit_left: int) -> str | None:
        """Return the `entries` frame of a batch, None if it has several; raises FrameTooLarge."""
        asked = of, credit_left
        if read is not self._read or asked != self._asked:
            frame, *others = entries_frames(of, read, credit_left=credit_left)
            self._read, self._asked, self._frame = read, asked, None if others else frame
        return self._frame


def pattern_frames(of: FrameOf, read: PatternRead, *, credit_left: int) -> Iterable[str]:
    """Return the `entries` frames of matching streams. See `entries_frames`.

    Only the last one has a position, which is behind all of them.
    """
    frames = list[Iterable[str]]()
    gaps = [gap for each in read.reads if (gap := stream_gap_wire(each)) is not None]
    while len(gaps) > _GAPS_MAX:
        first_gaps, gaps = {"gaps": gaps[:_GAPS_MAX]}, gaps[_GAPS_MAX:]
        frames.append(_frames(of, _EMPTY, (), credit_left + read.entry_count, first_gaps, None))
    encoded = [_last_stream_entries.encoded(each) for each in read.reads if each.entries]
    starts = accumulate((len(each.text) - 1 for each in encoded), initial=0)
    ends = [start + end for start, each in zip(starts, encoded, strict=False) for end in each.ends]
    array = _array_of(b",".join(each.text[1:-1] for each in encoded), ends)
    entries = chain.from_iterable(each.entries for each in read.reads)
    first = {"gaps": gaps} if gaps else None
    last = {"position": str(read.next_after)}
    frames.append(_frames(of, array, entries, credit_left, first, last))
    return chain.from_iterable(frames)


def deliveries_frames(
    of: FrameOf,
    deliveries: Sequence[Delivery],
    gone: list[str],
    *,
    credit_left: int,
    lag: int | None,
) -> Iterable[str]:
    """Return the `entries` frames of a group; `gone` are ids without an entry."""
    array = _array(map(delivery_wire, deliveries))
    first = {"deleted_ids": gone} if gone else None
    last = None if lag is None else {"lag": lag}
    return _frames(of, array, deliveries, credit_left, first, last)


def groups_frames(of: FrameOf, read: GroupsRead, *, credit_left: int) -> Iterable[str]:
    """Return the `entries` frames of a group in several streams."""
    deliveries = read.deliveries()
    array = _array(map(stream_delivery_wire, deliveries))
    return _frames(of, array, [one for _, one in deliveries], credit_left, None, None)


def _frames(
    of: FrameOf,
    array: _Array,
    entries: Iterable[Entry | Delivery | Row],
    credit_left: int,
    first: Mapping[str, object] | None,
    last: Mapping[str, object] | None,
) -> Iterable[str]:
    """Yield frames with as many entries as fit, but at least one."""
    room = min(of.bytes_max or FRAME_BYTES_MAX, FRAME_BYTES_MAX) - _HEAD_BYTES_MAX
    if len(array.text) <= room:  # nearly always
        return (_encode(_frame(of, array.whole, credit_left, first, last)).decode(),)
    return _cut(of, array, room, entries, credit_left, first, last)


def _frame(
    of: FrameOf,
    array: Any,
    credit_left: int,
    first: Mapping[str, object] | None,
    last: Mapping[str, object] | None,
) -> dict[str, object]:
    frame: dict[str, object] = {
        "type": of.kind,
        "sub": of.sub,
        of.kind: array,
        "credit_left": credit_left,
    }
    if first is not None:
        frame.update(first)
    if last is not None:
        frame.update(last)
    return frame


def _cut(
    of: FrameOf,
    array: _Array,
    room: int,
    entries: Iterable[Entry | Delivery | Row],
    credit_left: int,
    first: Mapping[str, object] | None,
    last: Mapping[str, object] | None,
) -> Iterator[str]:
    _, text, ends = array
    begin, sent = 1, 0
    while sent < len(ends):
        count = max(bisect_right(ends, begin + room), sent + 1)
        left, end = len(ends) - count, ends[count - 1]
        part = msgspec.Raw(b"[%b]" % text[begin : end - 1])
        before, behind = None if sent else first, None if left else last
        encoded = _encode(_frame(of, part, credit_left + left, before, behind))
        if of.bytes_max is not None and len(encoded) > of.bytes_max:
            entry_id = next(islice(entries, sent, None)).id
            raise FrameTooLarge(str(entry_id), len(encoded), of.bytes_max)
        yield encoded.decode()
        begin, sent = end, count


def settled_frame(
    frame: Acked | Ok, ids: Sequence[EntryId], outcomes: Sequence[Outcome]
) -> Iterator[str]:
    """Yield the answer to an ack, nack or extend in parts; `frame` has no results yet."""
    head, results_key, tail = _text(frame).partition('"results":[')
    yield head + results_key
    # One ack may settle 65,000 entries, and dicts would take five times longer.
    for at in range(0, len(ids), _SETTLED_AT_ONCE):
        end = at + _SETTLED_AT_ONCE
        results = [
            f'{{"id":"{ms}-{seq}{_OUTCOMES[outcome]}'
            for (ms, seq), outcome in zip(ids[at:end], outcomes[at:end], strict=True)
        ]
        yield f"{',' if at else ''}{','.join(results)}"
    yield tail


def _text(frame: Mapping[str, object]) -> str:
    return _encode(frame).decode()
