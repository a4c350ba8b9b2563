"""Events of CloudEvents, as many and as large as they may be, and as dense."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any

from headgate.app.cloud_events.event import BATCH, STRUCTURED
from headgate.app.cloud_events.formats import EVENT_BYTES_MAX
from tests.stalls.case import Case, request
from tests.stalls.client import JSON
from tests.stalls.keyspace import BIG, GROUP, WIDE, WIDEST
from tests.stalls.routes import BODY_BYTES

_EVENTS = "/v1/streams/events/entries"
_AS_EVENTS = {"Accept": BATCH}
_BEGIN = b'{"specversion":"1.0","id":"%d","source":"/shop","type":"sold"'


_SHAPES = {
    "a long text": (b'"', b"v", b'"'),
    "escapes": (b'"', b"\\u00e9", b'"'),
    "numbers": (b"[", b"1,", b"1]"),
    "arrays": (b"[", b"[],", b"1]"),
    "texts": (b"[", b'"",', b"1]"),
    "members": (b"{", b'"a":1,', b'"b":1}'),
}
"""The begin of data, a repeated part, and the end."""

_numbers = count(1)
"""Of events: each has an id of its own."""


def _event(shape: str, size_bytes: int) -> bytes:
    """Return an event with data of a shape."""
    opening, unit, end = _SHAPES[shape]
    begin = _BEGIN % next(_numbers) + b',"data":' + opening
    return begin + unit * ((size_bytes - len(begin) - len(end) - 1) // len(unit)) + end + b"}"


def _batch(shape: str, event_bytes: int) -> bytes:
    event_count = min(BODY_BYTES // event_bytes, 10_000)
    return b"[%b]" % b",".join(_event(shape, event_bytes) for _ in range(event_count))


def _misleading(shape: str) -> bytes:
    """Return a batch in which the data of an event look like the end of it."""
    event = _BEGIN % next(_numbers) + b',"data":[%b0]}' % (b'"},{",' * 10_000)
    return b"[%b,%b]" % (event, _batch(shape, EVENT_BYTES_MAX)[1:-1])


def _append(
    name: str, content: Callable[[], bytes], media_type: str = STRUCTURED, **headers: str
) -> Case:
    return request(
        "appendEvents",
        f"POST {_EVENTS}",
        lambda _: content(),
        name=name,
        media_type=media_type,
        headers=headers,
    )


def _binary() -> dict[str, str]:
    event = {**json.loads(_BEGIN % next(_numbers) + b"}"), "subject": "%C3%A4" * 1000}
    return {f"ce-{name}": value for name, value in event.items()}


def _read(operation: str, path: str, name: str, body: Any = None) -> Case:
    line = f"GET {path}" if body is None else f"POST {path}"
    return request(operation, line, b"" if body is None else body, name=name, headers=_AS_EVENTS)


CHANGING: list[Case] = [
    *(_append(f"1 MiB, {shape}", partial(_event, shape, EVENT_BYTES_MAX)) for shape in _SHAPES),
    _append("too long", lambda: _event("numbers", BODY_BYTES)),
    _append("no data, but members", lambda: _BEGIN % 0 + b',"a":1' * 170_000 + b"}"),
    _append("16 MB of bytes", lambda: b"\xff" * BODY_BYTES, "image/png", **_binary()),
    _append("16 MB of JSON", lambda: b"[%b1]" % (b"1," * 7 * 10**6), JSON, **_binary()),
    *(
        _append(
            f"batch of {event_bytes} bytes each, {shape}",
            partial(_batch, shape, event_bytes),
            BATCH,
        )
        for shape in _SHAPES
        for event_bytes in (100, 1500, EVENT_BYTES_MAX)
    ),
    *(
        _append(f"batch whose ends are looked for, {shape}", partial(_misleading, shape), BATCH)
        for shape in _SHAPES
    ),
    _append("batch of one that is too long", lambda: _batch("numbers", BODY_BYTES), BATCH),
    _append("batch that is none", lambda: b"[" * BODY_BYTES, BATCH),
    _append("batch of numbers", lambda: b"[%b1]" % (b"1," * 7 * 10**6), BATCH),
    _append("batch of empty objects", lambda: b"[%b{}]" % (b"{}," * 5 * 10**6), BATCH),
    _read("readEntries", f"{_EVENTS}?limit=10000", "large events as a batch"),
    _read("readEntries", f"{_EVENTS}?limit=10000&order=desc", "small events as a batch"),
    _read("readEntries", f"/v1/streams/{BIG}/entries?limit=10000", "a page as events"),
    _read("readEntries", f"/v1/streams/{WIDE}/entries?limit=10000", "wide, as events"),
    _read("readEntries", f"/v1/streams/{WIDEST}/entries?limit=10000", "widest, as events"),
    _read(
        "readGroup",
        f"/v1/streams/{BIG}/groups/{GROUP}/read?consumer=reader",
        "as events",
        {"limit": 10_000},
    ),
]
