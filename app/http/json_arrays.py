"""JSON arrays: answers of any size, encoded in several turns of the event loop."""

from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from typing import Any, TypeVar

import msgspec
from fastapi import Response

from headgate.app.wire.encoding import unbroken
from headgate.engine.entry import EntryId
from headgate.engine.threads.turn import this_turn

T = TypeVar("T")

_AT_ONCE = 100
"""Items that are encoded together, if they are small."""

_encoder = msgspec.json.Encoder()
json_lines = _encoder.encode_lines
"""Encode items, one per line."""


async def array_in_turns(items: Iterable[T], wire: Callable[[T], object]) -> Any:
    """Return a JSON array, encoded: it stands where the model of an answer has the list.

    Args:
        items: what to encode; they must not change meanwhile.
        wire: returns the wire form of one.
    """
    parts = [b"["]
    async for batch in _batches(list(items), wire):
        parts += [_encoder.encode(batch)[1:-1], b","]
    parts[-1] = b"]" if len(parts) > 1 else b"[]"
    return msgspec.Raw(b"".join(parts))  # it may have many megabytes, so it is copied once


async def lines_in_turns(items: Iterable[T], wire: Callable[[T], object]) -> bytes:
    """Return items as NDJSON; they must not change meanwhile."""
    lines = [unbroken(json_lines(batch)) async for batch in _batches(list(items), wire)]
    return b"".join(lines)


async def _batches(
    items: Sequence[T], wire: Callable[[T], object]
) -> AsyncGenerator[list[object], None]:
    """Yield the wire forms of the next items, few of them if they are large."""
    turn, at = this_turn(), 0
    await turn.begin()
    while at < len(items):
        if at:
            await turn.pause()
        batch = []
        for item in items[at : at + _AT_ONCE]:
            batch.append(wire(item))
            if turn.is_over:
                break
        at += len(batch)
        yield batch


def json_answer(value: object) -> Response:
    """Return an answer; large parts of it are encoded already."""
    return Response(_encoder.encode(value), media_type="application/json")


async def outcomes_array(ids: Sequence[EntryId], outcomes: Sequence[str]) -> Any:
    """Return the outcome of each id, as an array of `Settled` or `Deleted`."""
    return await array_in_turns(zip(ids, outcomes, strict=True), _wire_outcome)


def _wire_outcome(pair: tuple[EntryId, str]) -> dict[str, str]:
    (ms, seq), outcome = pair
    return {"id": f"{ms}-{seq}", "outcome": outcome}
