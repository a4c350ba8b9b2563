"""REST: an operation is a request of HTTP."""

# mypy: disable-error-code="override"
# A face does not look at options that it hands on to the port.

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

from tests.conformance.faces.port import Answer, Port, Refused

_OF_GROUP = "{stream}/groups/{group}"

_REQUESTS = {
    "append_one": "POST {stream}/entries",
    "append_batch": "POST {stream}/entries/batch",
    "close_stream": "POST {stream}/close",
    "read": "GET {stream}/entries",
    "range": "GET {stream}/entries",
    "delete": "POST {stream}/entries/delete",
    "trim": "POST {stream}/trim",
    "create_stream": "PUT {stream}",
    "update_stream": "PATCH {stream}",
    "describe_stream": "GET {stream}",
    "delete_stream": "DELETE {stream}",
    "create_group": f"PUT {_OF_GROUP}",
    "update_group": f"PATCH {_OF_GROUP}",
    "describe_group": f"GET {_OF_GROUP}",
    "delete_group": f"DELETE {_OF_GROUP}",
    "consumers": f"GET {_OF_GROUP}/consumers",
    "create_consumer": f"PUT {_OF_GROUP}/consumers/{{by}}",
    "delete_consumer": f"DELETE {_OF_GROUP}/consumers/{{by}}",
    "take": f"POST {_OF_GROUP}/read",
    "ack": f"POST {_OF_GROUP}/ack",
    "nack": f"POST {_OF_GROUP}/nack",
    "extend": f"POST {_OF_GROUP}/extend",
    "claim": f"POST {_OF_GROUP}/claim",
    "autoclaim": f"POST {_OF_GROUP}/autoclaim",
    "pending": f"GET {_OF_GROUP}/pending",
    "sum_pending": f"GET {_OF_GROUP}/pending/summary",
    "redrive": f"POST {_OF_GROUP}/dead-letters/redrive",
}

_NEEDED: Mapping[str, Mapping[str, Any]] = {
    "claim": {"min_idle_ms": 0},
    "autoclaim": {"min_idle_ms": 0},
    "range": {"order": "asc"},
    "read": {"after": "0"},
}
"""Parts of requests that the port leaves out."""


class Http(Port):
    """The operations of `openapi.json`."""

    @classmethod
    def own(cls) -> frozenset[str]:
        return frozenset(_REQUESTS) | {"append"}

    def does(self, operation: str) -> Callable[..., Awaitable[Any]]:
        if operation in vars(Http):
            return super().does(operation)
        return partial(self._ask, operation)

    async def append(self, stream: str, entries: Sequence[Answer], **options: Any) -> Answer:
        if len(entries) == 1:
            answer = await self._ask("append_one", stream, **entries[0], **options)
            return {"ids": [answer["id"]]}
        if "trim" in options:  # a batch does not trim
            return await super().append(stream, entries, **options)
        batch: Answer = await self._ask("append_batch", stream, entries=entries, **options)
        return batch

    async def close_stream(
        self, stream: str, entries: Sequence[Answer] = (), **options: Any
    ) -> Answer:
        parts = {**dict(*entries), **options}
        closed: Answer = await self._ask("close_stream", stream, **parts)
        return closed

    async def redrive(self, stream: str, group: str, **wanted: Any) -> Answer:
        answer = await self._ask("redrive", stream, group, **wanted)
        return {"results": [{**each, "id": each["entry_id"]} for each in answer["results"]]}

    async def _ask(
        self, operation: str, stream: str, group: str = "", by: str | None = None, **parts: Any
    ) -> Any:
        method, place = _REQUESTS[operation].split()
        parts = {**_NEEDED.get(operation, {}), **parts}
        headers = {"Idempotency-Key": parts.pop("key", None)}
        if method == "POST":
            headers["If-Match"] = (last_id := parts.pop("last_id", None)) and f'"{last_id}"'
        params: dict[str, Any] = {}
        body: Any = None
        params, body = (parts, None) if method in ("GET", "DELETE") else ({}, parts)
        if "filters" in parts:
            parts["filter"] = parts.pop("filters")
        if operation == "take" and "after" in parts:
            parts["from"] = parts.pop("after")
        if "entries" in parts:
            body = parts.pop("entries")
            params = parts
        if "{by}" not in place:
            params["consumer"] = by
        answer = await self.live.http.request(
            method,
            "/v1/streams/" + place.format(stream=stream, group=group, by=by),
            json=body or None,
            params={name: _text(value) for name, value in _given(params).items()},
            headers=_given(headers),
        )
        if answer.is_error:
            raise Refused(answer.json()["code"])
        return answer.json() if answer.content else None


def _given(parts: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in parts.items() if value is not None}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
