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


async def _ask(target: Target, method: str, path: str, body: bytes, media_type: str) -> None:
    answer = await target.client.ask(method, path, body, media_type)
    assert answer.status < 300, answer


async def _make(target: Target) -> None:
    await _ask(target, "PUT", _FILLED, b"[]", JSON)


async def _make_of_bytes(target: Target) -> None:
    await _ask(target, "PUT", f"{_LARGE}-bytes", b"v", _BYTES)


async def _make_of_lines(target: Target) -> None:
    headers = {"Stream-Closed": "true"}
    answer = await target.client.ask("PUT", _LINES, b"\n" * _LONGEST, "text/plain", headers)
    assert answer.status < 300, answer


async def _fill(target: Target) -> None:
    await _make(target)
    await _ask(target, "POST", _FILLED, _messages(target.size), JSON)


async def _subscribe(target: Target) -> None:
    for number in range(LINKS_MAX - _LINKED):
        await _ask(target, "PUT", f"{_ROOT}/linked/{number}", b"[1]", JSON)
    await _ask(target, "PUT", _SUBSCRIPTION, json.dumps(_DEFINITION).encode(), JSON)


READING: list[Case] = [
    request("getDurableStream", "GET", f"{_ROOT}/{BIG}"),
    request("headDurableStream", "HEAD", f"{_ROOT}/{BIG}"),
    request("getDurableStreamKeys", "GET", f"{_ROOT}/__ds/jwks.json"),
]

CHANGING: list[Case] = [
    request("putDurableStream", "PUT", _LARGE, _messages),
    request(
        "putDurableStream",
        "PUT",
        f"{_LARGE}-fork",
        name="a fork",
        headers={
            "Stream-Forked-From": _FILLED,
        },
        prepare=_fill,
    ),
    request("postDurableStream", "POST", _FILLED, _dense, name="dense", prepare=_make),
    request("postDurableStream", "POST", _FILLED, _one_message, name="one", prepare=_make),
    request(
        *("postDurableStream", "POST", f"{_LARGE}-bytes", _bytes),
        name="bytes",
        media_type=_BYTES,
        prepare=_make_of_bytes,
    ),
    request("getDurableStream", "GET", _FILLED, name="of messages", prepare=_fill),
    request(
        *("getDurableStream", "GET", f"{_LINES}?offset=-1&live=sse"),
        name="events of line ends",
        prepare=_make_of_lines,
    ),
    request("deleteDurableStream", "DELETE", _FILLED, prepare=_make),
    request("putDurableSubscription", "PUT", _SUBSCRIPTION, lambda _: _DEFINITION),
    request("getDurableSubscription", "GET", _SUBSCRIPTION, prepare=_subscribe),
    request(
        "claimDurableSubscription",
        "POST",
        f"{_SUBSCRIPTION}/claim",
        lambda _: {"worker": "w"},
        prepare=_subscribe,
    ),
    request(
        "acknowledgeDurableSubscription",
        "POST",
        f"{_SUBSCRIPTION}/ack",
        lambda _: _REPORT,
        prepare=_subscribe,
    ),
    request(
        "callBackDurableSubscription",
        "POST",
        f"{_SUBSCRIPTION}/callback",
        lambda _: _REPORT,
        prepare=_subscribe,
    ),
    request(
        "releaseDurableSubscription",
        "POST",
        f"{_SUBSCRIPTION}/release",
        lambda _: _REPORT,
        prepare=_subscribe,
    ),
    request(
        "linkDurableStreams",
        "POST",
        f"{_SUBSCRIPTION}/streams",
        lambda _: {"streams": _DEFINITION["streams"]},
        prepare=_subscribe,
    ),
    request(
        "unlinkDurableStream", "DELETE", f"{_SUBSCRIPTION}/streams/linked/1", prepare=_subscribe
    ),
    request("deleteDurableSubscription", "DELETE", _SUBSCRIPTION, prepare=_subscribe),
]
