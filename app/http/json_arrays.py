"""JSON arrays: answers of any size, encoded in several turns of the event loop."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar

import msgspec
from fastapi import Response

from headgate.app.runtime.turns import Turn
from headgate.app.wire.encoding import unbroken
from headgate.engine.entry import EntryId

T = TypeVar("T")

_AT_ONCE = 100
"""Items that are encoded together, if they are small."""

_encoder = msgspec.json.Encoder()
json_lines = _encoder.encode_lines
"""Encode items, one per line."""


async def array_in_turns(
    items: Iterable[T], wire: Callable[[T], object], turn: Turn | None = None
) -> Any:
    """Return a JSON array, encoded: it stands where the model of an answer has the list.

    Args:
        items: what to encode; they must not change meanwhile.
        wire: returns the wire form of one.
        turn: that has begun already, where there are many arrays.
    """
    turn, left = turn or Turn(), iter(items)
    parts = [b"["]
    while batch := _next_batch(left, wire, turn):
        parts += [_encoder.encode(batch)[1:-1], b","]
        await turn.pause()
    parts[-1] = b"]" if len(parts) > 1 else b"[]"
    whole = b"".join(parts)  # it may have many megabytes, so it is copied once
    await turn.pause()
    return msgspec.Raw(whole)


async def lines_in_turns(items: Iterable[T], wire: Callable[[T], object]) -> bytes:
    """Return items as NDJSON; they must not change meanwhile."""
    turn, left, parts = Turn(), iter(items), []
    while batch := _next_batch(left, wire, turn):
        parts.append(unbroken(json_lines(batch)))
        await turn.pause()
    return b"".join(parts)


def _next_batch(left: Iterator[T], wire: Callable[[T], object], turn: Turn) -> list[object]:
    """Return the wire forms of the next items, fewer if they are so large that the turn is over."""
    batch = []
    for item in islice(left, _AT_ONCE):
        batch.append(wire(item))
        if turn.is_over:
            break
    return batch


def json_answer(value: object) -> Response:
    """Return an answer; large parts of it are encoded already."""
    return Response(_encoder.encode(value), media_type="application/json")


async def outcomes_array(ids: Sequence[EntryId], outcomes: Sequence[str]) -> Any:
    """Return the outcome of each id, as an array of `Settled` or `Deleted`."""
    return await array_in_turns(zip(ids, outcomes, strict=True), _wire_outcome)


def _wire_outcome(pair: tuple[EntryId, str]) -> dict[str, str]:
    (ms, seq), outcome = pair
    return {"id": f"{ms}-{seq}", "outcome": outcome}
