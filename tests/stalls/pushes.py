"""Pushes, each as large as it may be."""

from __future__ import annotations

import json
from typing import Any

from tests.stalls.case import Case, Target, request
from tests.stalls.client import JSON

_STREAM = "/v1/streams/pushed"
_GROUP = f"{_STREAM}/groups/g"
_PUSH = f"{_GROUP}/push"
_SEVERAL, _FAILED, _AT_ONCE = 200, 10_000, 1_000

_DEFINITION = {
    "url": "https://hooks.example/" + "a" * 2_000,
    "headers": {f"x-{number}": "v" * 4_096 for number in range(20)},
    "signature": "v1a",
}


async def _ask(target: Target, method: str, path: str, body: Any) -> None:
    answer = await target.client.ask(method, path, json.dumps(body).encode(), JSON)
    assert answer.status < 300, answer


async def _group(target: Target) -> None:
    await _ask(target, "PUT", _GROUP, {"create_stream": True})


async def _set(target: Target) -> None:
    await _group(target)
    await _ask(target, "PUT", _PUSH, _DEFINITION)


async def _set_several(target: Target) -> None:
    for number in range(_SEVERAL):
        group = f"{_STREAM}/groups/several-{number}"
        await _ask(target, "PUT", group, {"create_stream": True})
        await _ask(target, "PUT", f"{group}/push", _DEFINITION)


async def _fail_many(target: Target) -> None:
    """Let many entries wait for their next delivery."""
    await _set(target)
    await _ask(target, "POST", f"{_PUSH}/pause", {})
    for begin in range(1, _FAILED, _AT_ONCE):
        ids = [f"{number}-0" for number in range(begin, begin + _AT_ONCE)]
        entries = [{"id": entry_id, "fields": {"v": "x"}} for entry_id in ids]
        await _ask(target, "POST", f"{_STREAM}/entries/batch", entries)
        await _ask(target, "POST", f"{_GROUP}/read?consumer=me", {"limit": _AT_ONCE})
        await _ask(target, "POST", f"{_GROUP}/nack", {"ids": ids, "delay_ms": 600_000})


def _definition(_: Any) -> dict[str, Any]:
    return _DEFINITION


CHANGING: list[Case] = [
    request("setPush", "PUT", _PUSH, _definition, prepare=_group),
    request("describePush", "GET", _PUSH, prepare=_set),
    request("pausePush", "POST", f"{_PUSH}/pause", prepare=_set),
    request("resumePush", "POST", f"{_PUSH}/resume", prepare=_set),
    request("retryPush", "POST", f"{_PUSH}/retry", prepare=_fail_many),
    request("rotatePushSecret", "POST", f"{_PUSH}/rotate", prepare=_set),
    request("getPushKeys", "GET", "/v1/push/jwks.json", prepare=_set),
    request("listPushes", "GET", "/v1/pushes?limit=1000", prepare=_set_several),
    request("deletePush", "DELETE", _PUSH, prepare=_set),
]
