"""Keys and filters: groups that hold back as much as they may, or let nothing through."""

from __future__ import annotations

import json
from typing import Any

from tests.stalls.case import Act, Case, Target, destructive, request
from tests.stalls.keyspace import (
    BIG,
    DUE,
    EXPIRED,
    FAIR,
    FIRST_MS,
    FRESH,
    HOLDER,
    KEYS,
    ONE_KEY,
    Size,
    entry_id,
    stream_name,
)

_ONE_KEY = f"/v1/streams/{ONE_KEY}/groups/{ONE_KEY}"
_KEYS = f"/v1/streams/{KEYS}/groups/{KEYS}"
_FAIR = f"/v1/streams/{KEYS}/groups/{FAIR}"
_PASSING = f"/v1/streams/{BIG}/groups/passing"

_ABSENT = [{"exact": {"site": "nowhere"}}]
_MANY = [{"any": [{"suffix": {"site": f"-{number}"}} for number in range(62)]}]
"""A filter of 64 conditions, for which each entry has to be looked into."""


def _free(path: str, **policy: Any) -> Act:
    async def act(target: Target) -> None:
        await target.ask("PATCH", path, {"policy": policy})

    return act


def _pass_all(filters: list[Any]) -> Case:
    """Return the case of a group that passes by all entries."""

    async def prepare(target: Target) -> None:
        await target.client.command("XGROUP", "DESTROY", BIG, "passing")
        await target.ask("PUT", _PASSING, {"start": "0", "policy": {"filters": filters}})

    conditions = "a condition" if len(json.dumps(filters)) < 100 else "64 conditions"
    return request(
        "readGroup",
        f"POST {_PASSING}/read?consumer={HOLDER}",
        {},
        name=f"{conditions} that nothing meets",
        prepare=prepare,
    )


def _read_timed(stream: str, group: str, name: str) -> Case:
    return destructive(
        "readGroup",
        f"POST /v1/streams/{stream}/groups/{group}/read?consumer=other",
        {"limit": 10000},
        name=name,
    )


_MATCH = f"match={stream_name(2)[0]}*"
_GROUPS = "/v1/groups/many"


def _of_streams(size: Size) -> dict[str, Any]:
    """Return as many ids as a request may have, each of a stream of its own."""
    names = (stream_name(number) for number in range(min(size.many, size.streams)))
    return {"entries": [{"stream": name, "ids": [f"{FIRST_MS}-0"]} for name in names]}


async def _join_all(target: Target) -> None:
    await target.ask("POST", f"{_GROUPS}/read?consumer=o&{_MATCH}", {"create": {"start": "0"}})


HARMLESS: list[Case] = [
    _pass_all(_ABSENT),
    _pass_all(_MANY),
    request("listPending", f"GET {_KEYS}/pending?limit=10000", name="of many keys"),
    request("readGroup", f"POST {_ONE_KEY}/read?consumer=o", {}, name="all is held"),
    request("listGroupKeys", f"GET {_FAIR}/keys?limit=1000"),
    request("describeGroup", f"GET {_FAIR}", name="whose keys take turns"),
]


def _change(path: str, name: str, policy: dict[str, Any]) -> Case:
    return destructive("updateGroup", f"PATCH {path}", {"policy": policy}, name=name)


def _read_held(path: str, name: str) -> Case:
    return destructive(
        "readGroup",
        f"POST {path}/read?consumer=other",
        {"limit": 10000},
        name=name,
        prepare=_free(path, key_field=None),
    )


def _trim(stream: str) -> Case:
    return destructive(
        "trimStream",
        f"POST /v1/streams/{stream}/trim",
        {"min_id": f"{FIRST_MS * 2}-0"},
        name=f"held entries of {stream}",
    )


_NO_KEY: dict[str, Any] = {"key_field": None}
_MORE: dict[str, Any] = {"key_pending_max": 1_000}

DESTRUCTIVE: list[Case] = [
    destructive(
        "readGroups",
        f"POST {_GROUPS}/read?consumer=o&{_MATCH}",
        {"create": {"start": "0"}, "limit": 1_000},
        name="all streams",
    ),
    destructive(
        "followGroups",
        f"GET {_GROUPS}/events?consumer=o&credit=1000&{_MATCH}",
        headers={"Accept": "text/event-stream"},
        name="all streams",
        prepare=_join_all,
    ),
    *(
        destructive(
            f"{word}Groups",
            f"POST {_GROUPS}/{word}?consumer=o",
            _of_streams,
            name="of many streams",
            prepare=_join_all,
        )
        for word in ("ack", "nack", "extend")
    ),
    _read_timed(DUE, DUE, "all are due in one millisecond"),
    _read_timed(DUE, f"{DUE}-keyed", "all of one key are due in one millisecond"),
    _read_timed(EXPIRED, FRESH, "all are expired"),
    destructive("trimStream", f"POST /v1/streams/{DUE}/trim", {"max_length": 0}, name="times"),
    _change(_ONE_KEY, "no key_field with one key", _NO_KEY),
    _change(_KEYS, "no key_field with many keys", _NO_KEY),
    _change(_ONE_KEY, "a higher key_pending_max with one key", _MORE),
    _change(_KEYS, "a higher key_pending_max with many keys", _MORE),
    _read_held(_ONE_KEY, "what was held of one key"),
    _read_held(_KEYS, "what was held of many keys"),
    destructive(
        "ackEntries",
        f"POST {_KEYS}/ack",
        lambda size: {"ids": [entry_id(number) for number in range(min(size.many, size.held))]},
        name="of many keys",
    ),
    destructive(
        "readGroup", f"POST {_FAIR}/read?consumer=o", {"limit": 10000}, name="of keys in turn"
    ),
    _change(_FAIR, "no fair_field any more", {"fair_field": None}),
    _change(_FAIR, "another priority_field", {"priority_field": "key"}),
    _change(_FAIR, "a higher key_pending_max with a fair_field", _MORE),
    destructive(
        "updateGroup", f"PATCH {_FAIR}", {"start": "0"}, name="the position, of keys in turn"
    ),
    destructive("deleteGroup", f"DELETE {_FAIR}", name="of keys in turn"),
    _trim(ONE_KEY),
    _trim(KEYS),
    destructive("deleteGroup", f"DELETE {_ONE_KEY}", name="with one key"),
    destructive("deleteGroup", f"DELETE {_KEYS}", name="with many keys"),
    destructive("deleteStream", f"DELETE /v1/streams/{KEYS}", name="keys"),
]
