"""Keys and filters: groups that hold back as much as they may, or let nothing through."""

from __future__ import annotations

import json
from typing import Any

from tests.stalls.case import Act, Case, Target, request
from tests.stalls.keyspace import (
    BIG,
    DUE,
    EXPIRED,
    FIRST_MS,
    FRESH,
    HOLDER,
    KEYS,
    ONE_KEY,
    entry_id,
)

_ONE_KEY = f"/v1/streams/{ONE_KEY}/groups/{ONE_KEY}"
_KEYS = f"/v1/streams/{KEYS}/groups/{KEYS}"
_PASSING = f"/v1/streams/{BIG}/groups/passing"

_ABSENT = [{"exact": {"site": "nowhere"}}]
_MANY = [{"any": [{"suffix": {"site": f"-{number}"}} for number in range(62)]}]
"""A filter of 64 conditions, for which each entry has to be looked into."""


async def _ask(target: Target, method: str, path: str, body: Any) -> None:
    answer = await target.client.ask(method, path, json.dumps(body).encode())
    assert answer.status < 300, answer


def _free(path: str, **policy: Any) -> Act:
    async def act(target: Target) -> None:
        await _ask(target, "PATCH", path, {"policy": policy})

    return act


def _pass_all(filters: list[Any]) -> Case:
    """Return the case of a group that passes by all entries."""

    async def prepare(target: Target) -> None:
        await target.client.command("XGROUP", "DESTROY", BIG, "passing")
        await _ask(target, "PUT", _PASSING, {"start": "0", "policy": {"filters": filters}})

    conditions = "a condition" if len(json.dumps(filters)) < 100 else "64 conditions"
    return request(
        "readGroup",
        "POST",
        f"{_PASSING}/read?consumer={HOLDER}",
        lambda _: {},
        name=f"{conditions} that nothing meets",
        prepare=prepare,
    )


def _read_timed(stream: str, group: str, name: str) -> Case:
    return request(
        "readGroup",
        "POST",
        f"/v1/streams/{stream}/groups/{group}/read?consumer=other",
        lambda _: {"limit": 10_000},
        name=name,
        is_destructive=True,
    )


HARMLESS: list[Case] = [
    _pass_all(_ABSENT),
    _pass_all(_MANY),
    request("listPending", "GET", f"{_KEYS}/pending?limit=10000", name="of many keys"),
    request("readGroup", "POST", f"{_ONE_KEY}/read?consumer=o", lambda _: {}, name="all is held"),
]


def _change(path: str, name: str, policy: dict[str, Any]) -> Case:
    return request(
        "updateGroup", "PATCH", path, lambda _: {"policy": policy}, name=name, is_destructive=True
    )


def _read_held(path: str, name: str) -> Case:
    return request(
        "readGroup",
        "POST",
        f"{path}/read?consumer=other",
        lambda _: {"limit": 10_000},
        name=name,
        prepare=_free(path, key_field=None),
        is_destructive=True,
    )


def _trim(stream: str) -> Case:
    return request(
        "trimStream",
        "POST",
        f"/v1/streams/{stream}/trim",
        lambda _: {"min_id": f"{FIRST_MS * 2}-0"},
        name=f"held entries of {stream}",
        is_destructive=True,
    )


_NO_KEY: dict[str, Any] = {"key_field": None}
_MORE: dict[str, Any] = {"key_pending_max": 1_000}

DESTRUCTIVE: list[Case] = [
    _read_timed(DUE, DUE, "all are due in one millisecond"),
    _read_timed(DUE, f"{DUE}-keyed", "all of one key are due in one millisecond"),
    _read_timed(EXPIRED, FRESH, "all are expired"),
    request(
        "trimStream",
        "POST",
        f"/v1/streams/{DUE}/trim",
        lambda _: {"max_length": 0},
        name="times",
        is_destructive=True,
    ),
    _change(_ONE_KEY, "no key_field with one key", _NO_KEY),
    _change(_KEYS, "no key_field with many keys", _NO_KEY),
    _change(_ONE_KEY, "a higher key_pending_max with one key", _MORE),
    _change(_KEYS, "a higher key_pending_max with many keys", _MORE),
    _read_held(_ONE_KEY, "what was held of one key"),
    _read_held(_KEYS, "what was held of many keys"),
    request(
        "ackEntries",
        "POST",
        f"{_KEYS}/ack",
        lambda size: {"ids": [entry_id(number) for number in range(min(size.many, size.held))]},
        name="of many keys",
        is_destructive=True,
    ),
    _trim(ONE_KEY),
    _trim(KEYS),
    request("deleteGroup", "DELETE", _ONE_KEY, name="with one key", is_destructive=True),
    request("deleteGroup", "DELETE", _KEYS, name="with many keys", is_destructive=True),
    request("deleteStream", "DELETE", f"/v1/streams/{KEYS}", name="keys", is_destructive=True),
]
