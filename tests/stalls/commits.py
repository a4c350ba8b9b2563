"""Commits, each with as many steps, entries and ids as it may have."""

from __future__ import annotations

from typing import Any

from headgate.engine.limits import COMMIT_ITEMS_MAX, COMMIT_STEPS_MAX, LOOKUPS_AT_ONCE_MAX
from tests.stalls.case import Case, Target, destructive
from tests.stalls.keyspace import BIG, GROUP, HOLDER, TABLE, Size, entry_id

_GROUP = f"/v1/streams/{BIG}/groups/{GROUP}"
_EACH = COMMIT_ITEMS_MAX // COMMIT_STEPS_MAX


def _commit(name: str, body: Any, **more: Any) -> Case:
    return destructive("commit", "POST /v1/commit", body, name=name, **more)


def _acks(size: Size) -> dict[str, Any]:
    ids = size.scattered_ids(size.pending)[:COMMIT_ITEMS_MAX]
    own = {"stream": BIG, "group": GROUP}
    portions = [ids[at : at + _EACH] for at in range(0, len(ids), _EACH)]
    return {"consumer": HOLDER, "steps": [{"ack": {**own, "ids": each}} for each in portions]}


def _fatal(size: Size) -> dict[str, Any]:
    ids = size.scattered_ids(size.pending)[:LOOKUPS_AT_ONCE_MAX]
    nack = {"stream": BIG, "group": GROUP, "ids": ids, "mode": "fatal"}
    return {"consumer": HOLDER, "steps": [{"nack": nack}]}


async def _with_dead_letters(target: Target) -> None:
    policy = {"max_deliveries": 1, "dead_letter_stream": "dead"}
    await target.ask("PATCH", _GROUP, {"policy": policy})


def _entries(stream: str) -> dict[str, Any]:
    return {"append": {"stream": stream, "entries": [{"fields": {"k": "0000001"}}] * _EACH}}


_ROW = {"stream": TABLE, "fields": {"n": "2"}, "if_match": "1-0"}
_ROWS = [{"put_row": {**_ROW, "key": f"{number:07}"}} for number in range(COMMIT_STEPS_MAX)]

DESTRUCTIVE: list[Case] = [
    _commit("acks", _acks),
    _commit("dead letters", _fatal, prepare=_with_dead_letters),
    _commit("entries of a table", {"steps": [_entries(TABLE)] * COMMIT_STEPS_MAX}),
    _commit(
        "entries of many streams",
        {"steps": [_entries(f"new-{number}") for number in range(COMMIT_STEPS_MAX)]},
    ),
    _commit("rows that are another one", {"steps": _ROWS}),
    _commit(
        "entries that are not pending",
        {
            "consumer": HOLDER,
            "steps": [
                {
                    "ack": {
                        "stream": BIG,
                        "group": GROUP,
                        "ids": [entry_id(10**9 + n) for n in range(500)],
                    }
                }
            ],
        },
    ),
]
