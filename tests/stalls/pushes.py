"""Pushes, each as large as it may be."""

from __future__ import annotations

from tests.stalls.case import Case, Target, request
from tests.stalls.keyspace import FIRST_MS, stream_name

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


_AGAIN = {"start": "-", "filter": {"exact": {"v": "none"}}}


async def _replay(target: Target) -> None:
    await _set(target)
    await target.client.ask("DELETE", f"{_PUSH}/replay")  # that of the case before may go on
    await target.ask("POST", f"{_PUSH}/replay", _AGAIN)


_GROUPS = "/v1/groups/pushed"
_MATCH = f"match={stream_name(2)[0]}*"
_PATTERN = f"{_GROUPS}/push"
_OF_PATTERN = {**_DEFINITION, "create": {"start": "0"}}


async def _set_pattern(target: Target) -> None:
    await target.ask("PUT", f"{_PATTERN}?{_MATCH}", _OF_PATTERN)
    await target.ask("POST", f"{_PATTERN}/pause?{_MATCH}", {})


async def _fail_in_many(target: Target) -> None:
    """Let an entry of each of many streams wait for its next delivery."""
    await _set_pattern(target)
    count = min(_FAILED, target.size.streams)
    reading = {"create": {"start": "0"}, "limit": count}
    await target.ask("POST", f"{_GROUPS}/read?consumer=me&{_MATCH}", reading)
    for begin in range(0, count, _AT_ONCE):
        names = map(stream_name, range(begin, min(begin + _AT_ONCE, count)))
        entries = [{"stream": name, "ids": [f"{FIRST_MS}-0"]} for name in names]
        await target.ask("POST", f"{_GROUPS}/nack", {"entries": entries, "delay_ms": 600_000})


CHANGING: list[Case] = [
    request("setPush", f"PUT {_PUSH}", _DEFINITION, prepare=_group),
    request("describePush", f"GET {_PUSH}", prepare=_set),
    request("pausePush", f"POST {_PUSH}/pause", prepare=_set),
    request("resumePush", f"POST {_PUSH}/resume", prepare=_set),
    request("retryPush", f"POST {_PUSH}/retry", prepare=_fail_many),
    request("listPushAttempts", f"GET {_PUSH}/attempts?limit=1000", prepare=_set),
    request("replayPush", f"POST {_PUSH}/replay", _AGAIN, prepare=_set),
    request("cancelPushReplay", f"DELETE {_PUSH}/replay", prepare=_replay),
    request("testPush", f"POST {_PUSH}/test", prepare=_set),
    request("rotatePushSecret", f"POST {_PUSH}/rotate", prepare=_set),
    request("getPushKeys", "GET /v1/push/jwks.json", prepare=_set),
    request("listPushes", "GET /v1/pushes?limit=1000", prepare=_set_several),
    request("deletePush", f"DELETE {_PUSH}", prepare=_set),
    *(
        request(
            f"{act}PatternPush{what}",
            f"{method} {_PATTERN}{path}?{_MATCH}",
            _OF_PATTERN if act == "set" else b"",
            prepare=prepare,
        )
        for act, what, method, path, prepare in (
            ("set", "", "PUT", "", None),
            ("describe", "", "GET", "", _set_pattern),
            ("pause", "", "POST", "/pause", _set_pattern),
            ("resume", "", "POST", "/resume", _set_pattern),
            ("retry", "", "POST", "/retry", _fail_in_many),
            ("list", "Attempts", "GET", "/attempts", _set_pattern),
            ("test", "", "POST", "/test", _set_pattern),
            ("rotate", "Secret", "POST", "/rotate", _set_pattern),
            ("delete", "", "DELETE", "", _set_pattern),
        )
    ),
]
