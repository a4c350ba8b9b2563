"""Pushes, each as large as it may be."""

from __future__ import annotations

from tests.stalls.case import Case, Target, request

_STREAM = "/v1/streams/pushed"
_GROUP = f"{_STREAM}/groups/g"
_PUSH = f"{_GROUP}/push"
_SEVERAL, _FAILED, _AT_ONCE = 200, 10_000, 1_000

_DEFINITION = {
    "url": "https://hooks.example/" + "a" * 2_000,
    "headers": {f"x-{number}": "v" * 4_096 for number in range(20)},
    "signature": "v1a",
}


async def _group(target: Target) -> None:
    await target.ask("PUT", _GROUP, {"create_stream": True})


async def _set(target: Target) -> None:
    await _group(target)
    await target.ask("PUT", _PUSH, _DEFINITION)


async def _set_several(target: Target) -> None:
    for number in range(_SEVERAL):
        group = f"{_STREAM}/groups/several-{number}"
        await target.ask("PUT", group, {"create_stream": True})
        await target.ask("PUT", f"{group}/push", _DEFINITION)


async def _fail_many(target: Target) -> None:
    """Let many entries wait for their next delivery."""
    await _set(target)
    await target.ask("POST", f"{_PUSH}/pause", {})
    for begin in range(1, _FAILED, _AT_ONCE):
        ids = [f"{number}-0" for number in range(begin, begin + _AT_ONCE)]
        entries = [{"id": entry_id, "fields": {"v": "x"}} for entry_id in ids]
        await target.ask("POST", f"{_STREAM}/entries/batch", entries)
        await target.ask("POST", f"{_GROUP}/read?consumer=me", {"limit": _AT_ONCE})
        await target.ask("POST", f"{_GROUP}/nack", {"ids": ids, "delay_ms": 600_000})


CHANGING: list[Case] = [
    request("setPush", f"PUT {_PUSH}", _DEFINITION, prepare=_group),
    request("describePush", f"GET {_PUSH}", prepare=_set),
    request("pausePush", f"POST {_PUSH}/pause", prepare=_set),
    request("resumePush", f"POST {_PUSH}/resume", prepare=_set),
    request("retryPush", f"POST {_PUSH}/retry", prepare=_fail_many),
    request("rotatePushSecret", f"POST {_PUSH}/rotate", prepare=_set),
    request("getPushKeys", "GET /v1/push/jwks.json", prepare=_set),
    request("listPushes", "GET /v1/pushes?limit=1000", prepare=_set_several),
    request("deletePush", f"DELETE {_PUSH}", prepare=_set),
]
