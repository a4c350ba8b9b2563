"""Encoding: entries, deliveries and ids by the thousand, without a model for each.

All JSON of entries and deliveries is made here. `schemas.entries.Entry`,
`schemas.deliveries.Delivery`, `frames.Entries`, `frames.Acked` and `frames.Ok` say what it looks
like; tests hold one against the other. Those who follow a stream side by side are sent the same
entries, so the batch of a stream that was encoded last is remembered.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from typing import Any, Generic, Literal, TypeVar

import msgspec

from headgate.app.wire.fields import wire_fields
from headgate.app.wire.names import text_of
from headgate.engine.entry import Entry, EntryId
from headgate.engine.limits import COUNT_MAX
from headgate.engine.recent import Recent
from headgate.engine.replies import Delivery, Gap, Outcome, StreamRead

_SETTLED_AT_ONCE = 1_000
"""Ids whose outcomes make one part of an answer."""

_OUTCOMES = {outcome: f'","outcome":"{outcome}"}}' for outcome in Outcome}
"""Ends of the results for an id: to format an outcome takes longer than everything before it."""

_encode = msgspec.json.Encoder().encode


T = TypeVar("T", bound=Sized)


class LastBatches(Generic[T]):
    """The entries encoded last of each of some streams, and what became of them."""

    def __init__(self, encode: Callable[[list[Entry]], T]) -> None:
        """Remember encoded lists of entries."""
        self._encode = encode
        self._by_stream: Recent[bytes, tuple[list[Entry], T]] = Recent()

    def encoded(self, read: StreamRead) -> T:
        """Return the entries of a read encoded."""
        last = self._by_stream.get(read.stream)
        # Quick: an engine returns the same objects.
        if last is not None and last[0] == read.entries:
            return last[1]
        encoded = self._encode(read.entries)
        self._by_stream.put(read.stream, (read.entries, encoded), len(encoded))
        return encoded


def entry_wire(entry: Entry) -> dict[str, Any]:
    """Return the wire form of an entry of a stream."""
    (ms, seq), flat = entry
    return {"id": f"{ms}-{seq}", **wire_fields(flat)}


def gap_wire(gap: Gap) -> dict[str, str]:
    """Return the wire form of what trimming took before entries."""
    return {"from": str(gap.after), "to": str(gap.through)}


def _array(entries: list[Entry]) -> msgspec.Raw:
    return msgspec.Raw(_encode([entry_wire(entry) for entry in entries]))


_last_arrays = LastBatches(_array)


def entry_text(entry: Entry) -> str:
    """Return an entry of a stream as a JSON object."""
    return _text(entry_wire(entry))


def delivery_text(delivery: Delivery) -> str:
    """Return a delivery of a group as a JSON object; its entry is there."""
    return _text(delivery_wire(delivery))


def entries_frame(sub: str, read: StreamRead, *, credit_left: int) -> str:
    """Return the `entries` frame of a stream.

    Args:
        sub: the subscription.
        read: what is sent, and what trimming took before that.
        credit_left: how many more may come.
    """
    frame: dict[str, Any] = {
        "type": "entries",
        "sub": sub,
        "entries": _last_arrays.encoded(read),
        "credit_left": credit_left,
    }
    if read.gap is not None:
        frame["gap"] = gap_wire(read.gap)
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
    frame: dict[str, Any] = {
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
    kind: Literal["acked", "ok"],
    rid: str | None,
    sub: str,
    ids: Sequence[EntryId],
    outcomes: Sequence[Outcome],
) -> Iterator[str]:
    """Yield the answer to an ack (`acked`) or to a nack or extend (`ok`), a part at a time."""
    frame: dict[str, Any] = {"type": kind, "sub": sub}
    if rid is not None:
        frame["rid"] = rid
    yield f'{_text(frame)[:-1]},"results":['
    # One ack may settle 65,000 entries, and dicts would take five times longer.
    for at in range(0, len(ids), _SETTLED_AT_ONCE):
        end = at + _SETTLED_AT_ONCE
        results = [
            f'{{"id":"{ms}-{seq}{_OUTCOMES[outcome]}'
            for (ms, seq), outcome in zip(ids[at:end], outcomes[at:end], strict=True)
        ]
        yield f"{',' if at else ''}{','.join(results)}"
    yield "]}"


def delivery_wire(delivery: Delivery) -> dict[str, Any]:
    """Return the wire form of a delivery of a group; its entry is there."""
    (ms, seq), flat, idle_ms, delivered_before, claimed_from, count_set, last_error = delivery
    is_first = not delivered_before and count_set is None
    wire = {
        "id": f"{ms}-{seq}",
        **wire_fields(flat or ()),
        "deliveries": 1 if is_first else min(delivery.delivery_count, COUNT_MAX),
        "idle_ms": idle_ms,
    }
    if claimed_from is not None:
        wire["claimed_from"] = text_of(claimed_from)
    if last_error is not None:
        wire["last_error"] = text_of(last_error)
    return wire


def _text(frame: dict[str, Any]) -> str:
    return _encode(frame).decode()
