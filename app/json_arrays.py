"""JSON arrays: answers of any size, encoded in turns, so that others come between."""

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import TypeVar

import msgspec
from fastapi import Response
from pydantic import BaseModel

from app.turns import Turn
from engine.entry import EntryId

T = TypeVar("T")

_AT_ONCE = 100
"""Items that are encoded before it is asked whether the turn is over."""

_encoder = msgspec.json.Encoder()
json_lines = _encoder.encode_lines
"""Encode items, one per line."""


async def array_in_turns(items: Iterable[T], wire: Callable[[T], object]) -> msgspec.Raw:
    """Return a JSON array.

    Args:
        items: what to encode; they must not change meanwhile.
        wire: returns the wire form of one.
    """
    turn, left, parts = Turn(), iter(items), []
    while some := list(islice(left, _AT_ONCE)):
        parts.append(_encoder.encode([wire(one) for one in some])[1:-1])
        await turn.pause()
    return msgspec.Raw(b"[" + b",".join(parts) + b"]")


async def lines_in_turns(items: Iterable[T], wire: Callable[[T], object]) -> bytes:
    """Return items as NDJSON; they must not change meanwhile."""
    turn, left, parts = Turn(), iter(items), []
    while some := list(islice(left, _AT_ONCE)):
        parts.append(json_lines(map(wire, some)))
        await turn.pause()
    return b"".join(parts)


def raw(model: BaseModel) -> msgspec.Raw:
    """Return a model encoded, without what was not set in it."""
    return msgspec.Raw(model.model_dump_json(exclude_unset=True).encode())


def json_answer(value: object) -> Response:
    """Return an answer whose large parts are encoded already."""
    return Response(_encoder.encode(value), media_type="application/json")


async def outcomes_answer(ids: Sequence[EntryId], outcomes: Sequence[str]) -> Response:
    """Return what became of each id, as `schemas.SettledEntries` says."""
    pairs = zip(ids, outcomes, strict=True)
    return json_answer({"results": await array_in_turns(pairs, _wire_outcome)})


def _wire_outcome(pair: tuple[EntryId, str]) -> dict[str, str]:
    (ms, seq), outcome = pair
    return {"id": f"{ms}-{seq}", "outcome": outcome}
