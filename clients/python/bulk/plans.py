"""Plans: the ends of the next reads of streams, and the cuts between parts of a read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from headgate.client.calls import Calls
from headgate.client.entries import Gap

_CURSORS_MAX: Final = 1000
"""Of one request, by the contract."""


class Cursor(NamedTuple):
    """The position of a reader in a stream: behind the entry `after`, in the life `epoch`."""

    stream: str
    after: str = "0-0"
    epoch: str | None = None


class Plan(NamedTuple):
    """The part of a stream that a cursor may read next.

    Attributes:
        stream: its name.
        epoch: the life the stream is in; None: there is no such stream.
        after: where the cursor stands.
        end: the last id to read, inclusive; `after` if there is nothing.
        entries: how many entries that is.
        backlog: how many entries there are behind `after`.
        last_id: the last id of the stream; None: there is no such stream.
        first_id: the first entry that is there; None: the stream is empty.
        gap: what was trimmed behind `after`, if anything was.
    """

    stream: str
    epoch: str | None
    after: str
    end: str
    entries: int = 0
    backlog: int = 0
    last_id: str | None = None
    first_id: str | None = None
    gap: Gap | None = None


class Split(NamedTuple):
    """A part of a range: the entries behind `after`, up to and with `to`."""

    after: str
    to: str
    entries: int


async def plans_of(
    calls: Calls, cursors: Sequence[Cursor], *, max_entries: int | None, wait_ms: int
) -> list[Plan]:
    """Return a plan for each cursor; see `AsyncClient.plan`."""
    plans: list[Plan] = []
    remaining = max_entries
    for begin in range(0, len(cursors), _CURSORS_MAX):
        portion = cursors[begin : begin + _CURSORS_MAX]
        if remaining == 0:  # full: these stay where they are
            plans += [Plan(stream, epoch, after, after) for stream, after, epoch in portion]
            continue
        is_last = begin + _CURSORS_MAX >= len(cursors)
        wait_now_ms = wait_ms if is_last and not any(plan.entries for plan in plans) else 0
        body = {
            "cursors": [cursor._asdict() for cursor in portion],
            "max_entries": remaining,
            "wait_ms": wait_now_ms,
        }
        answer = await calls.call(
            "POST", "/v1/bulk/plan", body=body, wait_ms=wait_now_ms, is_repeatable=True
        )
        plans += map(_plan, answer["streams"])
        if max_entries is not None:
            remaining = max_entries - sum(plan.entries for plan in plans)
    return plans


def _plan(portion: Mapping[str, Any]) -> Plan:
    values = {name: portion[name] for name in Plan._fields}
    gap = values["gap"]
    return Plan(**values | {"gap": None if gap is None else Gap(gap["from"], gap["to"])})
