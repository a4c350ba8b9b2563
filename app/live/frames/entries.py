"""Entry frames: entries, deliveries and outcomes by the thousand, without a model for each."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

import msgspec

from headgate.app.live.frames.server import Acked, Entries, Ok
from headgate.app.wire.encoding import (
    LastBatches,
    delivery_wire,
    entries_wire,
    gap_wire,
    is_position_news,
    stream_entries_wire,
    stream_gap_wire,
)
from headgate.engine.entry import EntryId
from headgate.engine.replies import Delivery, Outcome, PatternRead, StreamRead

_SETTLED_AT_ONCE = 1_000
"""Ids whose outcomes make one part of an answer."""

_OUTCOMES = {outcome: f'","outcome":"{outcome}"}}' for outcome in Outcome}
"""Ends of the results for an id: to format an outcome takes longer than everything before it."""

_encode = msgspec.json.Encoder().encode


def _array(read: StreamRead) -> Any:
    return msgspec.Raw(_encode(entries_wire(read)))


def _members(read: StreamRead) -> bytes:
    """Return the members of an array, with commas between them."""
    return _encode(stream_entries_wire(read))[1:-1]


_last_arrays = LastBatches(_array)
_last_members = LastBatches(_members)


def entries_frame(sub: str, read: StreamRead, *, credit_left: int) -> str:
    """Return the `entries` frame of a stream.

    Args:
        sub: the subscription.
        read: what is sent, and what trimming took before that.
        credit_left: how many more may come.
    """
    frame: Entries = {
        "type": "entries",
        "sub": sub,
        "entries": _last_arrays.encoded(read),
        "credit_left": credit_left,
    }
    if read.gap is not None:
        frame["gap"] = gap_wire(read.gap)
    if is_position_news(read):
        frame["position"] = str(read.next_after)
    return _text(frame)


def pattern_frame(sub: str, read: PatternRead, *, credit_left: int) -> str:
    """Return the `entries` frame of streams that match a pattern.

    Args:
        sub: the subscription.
        read: what is sent.
        credit_left: how many more may come.
    """
    members = b",".join(_last_members.encoded(each) for each in read.reads if each.entries)
    frame: Entries = {
        "type": "entries",
        "sub": sub,
        "entries": cast("Any", msgspec.Raw(b"[%b]" % members)),
        "credit_left": credit_left,
        "position": str(read.next_after),
    }
    gaps = [gap for each in read.reads if (gap := stream_gap_wire(each)) is not None]
    if gaps:
        frame["gaps"] = gaps
    return _text(frame)


def deliveries_frame(
    sub: str,
    deliveries: Iterable[Delivery],
    gone: list[str],
    *,
    credit_left: int,
    lag: int | None,
) -> str:
    """Return the `entries` frame of a group.

    Args:
        sub: the subscription.
        deliveries: what is sent; their entries are there.
        gone: ids whose entries are not.
        credit_left: how many more may come.
        lag: how many the group has still to be given, if that is known.
    """
    frame: Entries = {
        "type": "entries",
        "sub": sub,
        "entries": [delivery_wire(delivery) for delivery in deliveries],
        "credit_left": credit_left,
    }
    if gone:
        frame["deleted_ids"] = gone
    if lag is not None:
        frame["lag"] = lag
    return _text(frame)


def settled_frame(
    frame: Acked | Ok, ids: Sequence[EntryId], outcomes: Sequence[Outcome]
) -> Iterator[str]:
    """Yield the answer to an ack, a nack or an extend, a part at a time.

    Args:
        frame: the answer without results.
        ids: what was asked for.
        outcomes: of each of them.
    """
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
