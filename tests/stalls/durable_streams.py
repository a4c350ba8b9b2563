"""Durable Streams, each with the largest argument it takes."""

from __future__ import annotations

import json
from typing import Any

from headgate.app.durable_streams.content import JSON_BYTES_MAX
from headgate.app.durable_streams.subscriptions.store import LINKS_MAX
from tests.stalls.case import Case, Target, request
from tests.stalls.client import JSON
from tests.stalls.keyspace import BIG

_BYTES = "application/octet-stream"
_ROOT = "/v1/stream"
_LARGE = f"{_ROOT}/large"
_FILLED = f"{_ROOT}/filled"
_LINES = f"{_ROOT}/lines"
_SUBSCRIPTION = f"{_ROOT}/__ds/subscriptions/s"
_LONGEST = 15 * 10**6
_LINKED = 1_000

_DEFINITION = {
    "type": "pull-wake",
    "pattern": "linked/**",
    "streams": [f"linked/{number}" for number in range(_LINKED)],
    "wake_stream": "wakes",
}
_REPORT = {
    "wake_id": "w_1",
    "generation": 1,
    "acks": [{"stream": f"linked/{number}", "offset": "1_1"} for number in range(2_000)],
}


def _messages(_: Any) -> bytes:
    text = "v" * (JSON_BYTES_MAX // 5_000 - 20)
    return json.dumps([{"v": text}] * 5_000).encode()


def _dense(_: Any) -> bytes:
    return json.dumps([{f"f{number}": "" for number in range(18)}] * 5_000).encode()


def _one_message(_: Any) -> bytes:
    return json.dumps({"v": '"' * (JSON_BYTES_MAX // 2 - 20)}).encode()


def _bytes(_: Any) -> bytes:
    return b"v" * _LONGEST


async def _make(target: Target) -> None:
    await target.ask("PUT", _FILLED, b"[]", JSON)


async def _make_of_bytes(target: Target) -> None:
    await target.ask("PUT", f"{_LARGE}-bytes", b"v", _BYTES)


async def _make_of_lines(target: Target) -> None:
    headers = {"Stream-Closed": "true"}
    answer = await target.client.ask("PUT", _LINES, b"\n" * _LONGEST, "text/plain", headers)
    assert answer.status < 300, answer


async def _fill(target: Target) -> None:
    await _make(target)
    await target.ask("POST", _FILLED, _messages(target.size), JSON)


async def _subscribe(target: Target) -> None:
    for number in range(LINKS_MAX - _LINKED):
        await target.ask("PUT", f"{_ROOT}/linked/{number}", b"[1]", JSON)
    await target.ask("PUT", _SUBSCRIPTION, json.dumps(_DEFINITION).encode(), JSON)


READING: list[Case] = [
    request("getDurableStream", f"GET {_ROOT}/{BIG}"),
    request("headDurableStream", f"HEAD {_ROOT}/{BIG}"),
    request("getDurableStreamKeys", f"GET {_ROOT}/__ds/jwks.json"),
]

CHANGING: list[Case] = [
    request("putDurableStream", f"PUT {_LARGE}", _messages),
    request(
        "putDurableStream",
        f"PUT {_LARGE}-fork",
        name="a fork",
        headers={"Stream-Forked-From": _FILLED},
        prepare=_fill,
    ),
    request("postDurableStream", f"POST {_FILLED}", _dense, name="dense", prepare=_make),
    request("postDurableStream", f"POST {_FILLED}", _one_message, name="one", prepare=_make),
    request(
        "postDurableStream",
        f"POST {_LARGE}-bytes",
        _bytes,
        name="bytes",
        media_type=_BYTES,
        prepare=_make_of_bytes,
    ),
    request("getDurableStream", f"GET {_FILLED}", name="of messages", prepare=_fill),
    request(
        "getDurableStream",
        f"GET {_LINES}?offset=-1&live=sse",
        name="events of line ends",
        prepare=_make_of_lines,
    ),
    request("deleteDurableStream", f"DELETE {_FILLED}", prepare=_make),
    request("putDurableSubscription", f"PUT {_SUBSCRIPTION}", _DEFINITION),
    request("getDurableSubscription", f"GET {_SUBSCRIPTION}", prepare=_subscribe),
    request(
        "claimDurableSubscription",
        f"POST {_SUBSCRIPTION}/claim",
        {"worker": "w"},
        prepare=_subscribe,
    ),
    request(
        "acknowledgeDurableSubscription", f"POST {_SUBSCRIPTION}/ack", _REPORT, prepare=_subscribe
    ),
    request(
        "callBackDurableSubscription", f"POST {_SUBSCRIPTION}/callback", _REPORT, prepare=_subscribe
    ),
    request(
        "releaseDurableSubscription", f"POST {_SUBSCRIPTION}/release", _REPORT, prepare=_subscribe
    ),
    request(
        "linkDurableStreams",
        f"POST {_SUBSCRIPTION}/streams",
        {"streams": _DEFINITION["streams"]},
        prepare=_subscribe,
    ),
    request("unlinkDurableStream", f"DELETE {_SUBSCRIPTION}/streams/linked/1", prepare=_subscribe),
    request("deleteDurableSubscription", f"DELETE {_SUBSCRIPTION}", prepare=_subscribe),
]
