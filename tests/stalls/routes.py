"""Routes, each with the largest argument it takes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from headgate.engine.limits import FILTER_NODES_MAX
from tests.arrow_bodies import ARROW, FIELDS, arrow_of
from tests.stalls.case import Case, Target, destructive, request
from tests.stalls.client import JSON
from tests.stalls.keyspace import (
    ARCHIVING,
    BIG,
    CROWD,
    FIRST_MS,
    FRESH,
    GROUP,
    GROUPED,
    HOLDER,
    WIDE,
    WIDEST,
    WIDEST_COUNT,
    Size,
    entry_id,
    stream_name,
)

NDJSON = "application/x-ndjson"
BODY_BYTES = 15 * 10**6
"""A little less than `body_bytes_max`."""

_NOTHING = quote(json.dumps({"any": [{"suffix": {"site": "none"}}] * (FILTER_NODES_MAX - 1)}))
"""A filter for which no entry holds, though all have the field."""

_CHUNK_ROWS = 100_000
_STREAM = f"/v1/streams/{BIG}"
_GROUP = f"{_STREAM}/groups/{GROUP}"
_ARCHIVING = f"/v1/streams/{ARCHIVING}"
_WIDEST = f"/v1/streams/{WIDEST}/groups/{WIDEST}"
_BATCH = "/v1/streams/batches/entries/batch"
_WRITER = "/v1/bulk/writers/writer"


def _ids(size: Size, **more: Any) -> dict[str, Any]:
    return {"ids": size.scattered_ids(size.pending), **more}


def _long_entries(size: Size) -> list[Any]:
    value = "v" * (BODY_BYTES // 10_000)
    return [{"fields": {"v": value}} for _ in range(size.many)]


def _wide_entries(size: Size) -> list[Any]:
    fields = {f"f{number:02}": "v" for number in range(BODY_BYTES // 10_000 // 12)}
    return [{"fields": fields} for _ in range(size.many)]


def _lines(entries: list[Any]) -> bytes:
    return b"\n".join(json.dumps(entry).encode() for entry in entries)


def _rows(entries: list[Any]) -> bytes:
    pairs = [[(k, v.encode()) for k, v in entry["fields"].items()] for entry in entries]
    return arrow_of({"fields": pa.array(pairs, FIELDS)})


_KINDS = [("long values", _long_entries), ("many fields", _wide_entries)]
_FORMS: list[tuple[str, str, Callable[[list[Any]], Any]]] = [
    ("JSON", JSON, list),
    ("NDJSON", NDJSON, _lines),
    ("Arrow", ARROW, _rows),
]


def _shaped(
    entries: Callable[[Size], list[Any]], shape: Callable[[list[Any]], Any]
) -> Callable[[Size], Any]:
    return lambda size: shape(entries(size))


def _cursors(size: Size, count: int) -> list[dict[str, str]]:
    names = [stream_name(number) for number in range(min(count, size.streams) - 1)]
    return [{"stream": name, "after": "0"} for name in [BIG, *names]]


async def _govern(target: Target, group: str, **policy: Any) -> None:
    await target.ask("PATCH", group, {"policy": policy})


async def _bound_deliveries(target: Target) -> None:
    await _govern(
        target,
        _GROUP,
        max_deliveries=1,
        dead_letter_stream="dead",
        claim_idle_ms=0,
        backoff_ms=[1000],
    )


_SCHEMA = {
    "$defs": {"n": {"anyOf": [{"type": "integer", "minimum": n} for n in range(20)]}},
    "properties": {f"n{n}": {"$ref": "#/$defs/n"} for n in range(99)},
    "patternProperties": {"^x": {"type": "string"}},
}
"""As many subschemas as a stream may have, about."""


_GRANTS = [
    {"streams": [f"*{'?a' * 100}{n}*" for n in range(100)], "do": ["read"]} for _ in range(4)
] + [{"streams": ["*"], "do": ["admin"]}]


async def _check_entries(target: Target) -> None:
    await target.ask("PUT", "/v1/streams/checked/schema", {"schema": _SCHEMA})


async def _archive(target: Target) -> None:
    await target.client.ask("POST", f"{_ARCHIVING}/trim", b'{"max_length": 1}')


async def _make_dead_letters(target: Target) -> None:
    await _govern(target, _GROUP, max_deliveries=1, dead_letter_stream="dead")
    ids = target.size.scattered_ids(target.size.pending)
    await target.client.ask("POST", f"{_GROUP}/nack", json.dumps({"ids": ids}).encode())


async def _govern_the_widest(target: Target) -> None:
    await _govern(target, _WIDEST, max_deliveries=1, dead_letter_stream="dead")


async def _make_the_widest_dead_letters(target: Target) -> None:
    await _govern_the_widest(target)
    await target.client.ask("POST", f"{_WIDEST}/nack", json.dumps(_fail_the_widest()).encode())


def _fail_the_widest() -> dict[str, Any]:
    return {"ids": [entry_id(number) for number in range(WIDEST_COUNT)], "mode": "fatal"}


async def _stage(target: Target) -> None:
    """Stage a batch of many rows."""
    body = _rows([{"fields": {"v": "1"}}] * min(_CHUNK_ROWS, target.size.staged))
    for number in range(max(target.size.staged // _CHUNK_ROWS, 1)):
        answer = await target.client.ask(
            "PUT",
            f"{_WRITER}/batches/7/partitions/0/attempts/a/chunks/{number}?stream=written",
            body,
            ARROW,
        )
        assert answer.status == 200, answer


def _attempts(size: Size) -> dict[str, Any]:
    return {
        "attempts": [{"partition": 0, "attempt": "a", "chunks": max(size.staged // _CHUNK_ROWS, 1)}]
    }


def _agent(name: str, tool: str, arguments: dict[str, Any]) -> Case:
    params = {"name": tool, "arguments": arguments}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return request("callMcp", "POST /mcp", message, name=name, headers={"Accept": JSON})


READING: list[Case] = [
    request("checkHealth", "GET /healthz"),
    request("HEAD /healthz", "HEAD /healthz"),
    request("checkReadiness", "GET /readyz"),
    request("HEAD /readyz", "HEAD /readyz"),
    request("readMetrics", "GET /metrics"),
    request("HEAD /metrics", "HEAD /metrics"),
    request("describeLimits", "GET /v1/limits"),
    request("getPrincipal", "GET /v1/principal"),
    request("describeJournal", "GET /v1/admin/journal"),
    request("readGatewayHistory", "GET /v1/admin/history"),
    request("readStreamHistory", f"GET {_STREAM}/history"),
    request("readGroupHistory", f"GET {_GROUP}/history"),
    request("GET /asyncapi.json", "GET /asyncapi.json"),
    request("HEAD /asyncapi.json", "HEAD /asyncapi.json"),
    request("GET /", "GET /"),
    request("GET /openapi.json", "GET /openapi.json"),
    request("GET /docs", "GET /docs"),
    request("GET /console", "GET /console"),
    request("GET /console/{path:path}", "GET /console/streams/orders"),
    request("GET /guide", "GET /guide"),
    request("GET /clients", "GET /clients"),
    request("GET /clients/{name}", "GET /clients/headgate-0.1.0-py3-none-any.whl"),
    request("GET /guide/pages.json", "GET /guide/pages.json"),
    request("GET /guide/{name}.svg", "GET /guide/life.svg"),
    request("GET /guide/{task}", "GET /guide/work"),
    request("GET /problems", "GET /problems"),
    request("GET /page.css", "GET /page.css"),
    request("GET /problems/{code}", "GET /problems/draining"),
    request("readEntries", f"GET {_STREAM}/entries?limit=10000", name="a page of JSON"),
    request("readEntries", f"GET {_STREAM}/entries?after=0&limit=10000", name="after a cursor"),
    request(
        "readEntries",
        f"GET {_STREAM}/entries?after=0&limit=10000",
        name="after a cursor, NDJSON",
        headers={"Accept": NDJSON},
    ),
    request(
        "readEntries",
        f"GET {_STREAM}/entries?limit=10000&filter={_NOTHING}",
        name="a page without a match",
    ),
    request(
        "readEntries",
        lambda size: f"GET {_STREAM}/entries?end={entry_id(size.entries // 4)}&filter={_NOTHING}",
        name="lines without a match",
        headers={"Accept": NDJSON},
    ),
    request(
        "readEntries",
        f"GET {_STREAM}/entries?after=0&wait_ms=3000&filter={_NOTHING}",
        name="a wait without a match",
    ),
    request(
        "readEntries",
        f"GET /v1/streams/{WIDE}/entries?limit=10000&filter={_NOTHING}",
        name="wide without a match",
        headers={"Accept": NDJSON},
    ),
    request("readEntries", f"GET /v1/streams/{WIDE}/entries?limit=10000", name="wide"),
    request("readEntries", f"GET /v1/streams/{WIDEST}/entries?limit=10000", name="widest"),
    request(
        "readEntries",
        lambda size: f"GET /v1/streams/{WIDE}/entries?limit={size.many}",
        name="wide, as NDJSON",
        headers={"Accept": NDJSON},
    ),
    request(
        "readStreams",
        "POST /v1/read",
        {"streams": [{"stream": WIDE}, *[{"stream": BIG}] * 99], "limit": 10000},
        name="much of each",
    ),
    request(
        "readEntries",
        lambda size: f"GET {_STREAM}/entries?limit={size.entries // 4}",
        name="a quarter as NDJSON",
        headers={"Accept": NDJSON},
    ),
    request(
        "readEntries",
        lambda size: f"GET {_STREAM}/entries?limit={size.entries // 4}&order=desc",
        name="a quarter as NDJSON, downwards",
        headers={"Accept": NDJSON},
    ),
    request(
        "readEntries",
        f"GET {_STREAM}/entries?compression=zstd",
        name="all as Arrow",
        headers={"Accept": ARROW},
    ),
    request("getEntry", lambda size: f"GET {_STREAM}/entries/{entry_id(size.entries // 2)}"),
    request(
        "readStreams",
        "POST /v1/read",
        lambda size: {"streams": _cursors(size, 100), "limit": 10000},
    ),
    request("planBulkRead", "POST /v1/bulk/plan", lambda size: {"cursors": _cursors(size, 1000)}),
    request("splitRange", f"GET {_STREAM}/splits?parts=10000"),
    request("countByTime", f"GET {_STREAM}/histogram?buckets=1000"),
    request("describeWriter", f"GET {_WRITER}"),
    request("listConnections", "GET /v1/admin/connections?limit=1000"),
    request("listStreams", "GET /v1/streams?limit=10000"),
    request("describeStream", f"GET {_STREAM}?full=true&count=10000", name="full"),
    request("describeStream", f"GET /v1/streams/{CROWD}?full=true&count=10000", name="crowd"),
    request("describeStream", f"GET /v1/streams/{GROUPED}?full=true", name="many groups"),
    request("describeStream", f"GET /v1/streams/{WIDE}?full=true&count=10000", name="wide"),
    request("listGroups", f"GET /v1/streams/{GROUPED}/groups"),
    request("describeGroup", f"GET /v1/streams/{CROWD}/groups/{CROWD}"),
    request("listConsumers", f"GET /v1/streams/{CROWD}/groups/{CROWD}/consumers"),
    request("listPending", f"GET {_GROUP}/pending?limit=10000"),
    request(
        "listPending",
        f"GET {_GROUP}/pending?limit=10000&min_idle_ms=1000000000",
        name="of nothing idle for so long",
    ),
    request("summarizePending", f"GET /v1/streams/{CROWD}/groups/{CROWD}/pending/summary"),
    request("readByPath", f"GET /v1/commands/XRANGE/{BIG}/-/+"),
    _agent("the first call", "list_streams", {}),
    _agent("widest", "read_entries", {"stream": WIDEST, "limit": 100}),
    _agent("crowd", "describe_group", {"stream": CROWD, "group": CROWD}),
    _agent(
        "many fields",
        "append_entry",
        {"stream": BIG, "fields": {f"{n:0250}": "" for n in range(999)}},
    ),
]

CHANGING: list[Case] = [
    request(
        "appendEntry",
        "POST /v1/streams/long/entries",
        lambda _: {"fields": {"v": "v" * BODY_BYTES}},
    ),
    _agent("a long entry", "read_entries", {"stream": "long", "limit": 100}),
    *(
        request(
            "appendEntries",
            f"POST {_BATCH}",
            _shaped(entries, shape),
            name=f"16 MB of {form}, {kind}",
            media_type=media_type,
        )
        for form, media_type, shape in _FORMS
        for kind, entries in _KINDS
    ),
    request(
        "appendEntries",
        f"POST {_BATCH}",
        _wide_entries,
        name="16 MB of JSON under a key",
        headers={"Idempotency-Key": "k"},
    ),
    request("readEntries", "GET /v1/streams/batches/entries?limit=10000", name="16 MB of JSON"),
    request(
        "stageChunk",
        f"PUT {_WRITER}/batches/1/partitions/0/attempts/a/chunks/0?stream=written",
        lambda size: _rows(_wide_entries(size)),
        media_type=ARROW,
    ),
    request("abortBatch", f"DELETE {_WRITER}/batches/1"),
    request("createStream", "PUT /v1/streams/new"),
    request("listApiKeys", "GET /v1/keys"),
    request("setSchema", "PUT /v1/streams/new/schema", {"schema": _SCHEMA}),
    request("getSchema", "GET /v1/streams/checked/schema", prepare=_check_entries),
    request(
        "GET /v1/streams/{stream}/asyncapi.json",
        "GET /v1/streams/checked/asyncapi.json",
        prepare=_check_entries,
    ),
    request("deleteSchema", "DELETE /v1/streams/checked/schema", prepare=_check_entries),
    request(
        "appendEntries",
        "POST /v1/streams/checked/entries/batch",
        lambda size: [{"fields": {f"n{n}": "1" for n in range(99)}} for _ in range(size.many)],
        name="a schema",
        prepare=_check_entries,
    ),
    request("updateStream", f"PATCH {_STREAM}", {"idempotency_max": 10000}),
    request("createGroup", f"PUT {_STREAM}/groups/new"),
    request("createConsumer", f"PUT /v1/streams/{CROWD}/groups/{CROWD}/consumers/new"),
    request("deleteEntry", lambda size: f"DELETE {_STREAM}/entries/{entry_id(size.pending + 1)}"),
    request(
        "deleteEntries",
        f"POST {_STREAM}/entries/delete",
        lambda size: {"ids": size.scattered_ids(size.entries)},
    ),
    request("extendEntries", f"POST {_GROUP}/extend?consumer={HOLDER}", _ids),
    request(
        "claimEntries",
        f"POST {_GROUP}/claim?consumer=other",
        lambda size: _ids(size, min_idle_ms=0),
    ),
    request(
        "autoclaimEntries",
        f"POST {_GROUP}/autoclaim?consumer=other",
        {"min_idle_ms": 0, "limit": 10000},
    ),
    request(
        "autoclaimEntries",
        f"POST {_GROUP}/autoclaim?consumer=other",
        {"min_idle_ms": 10**12, "limit": 10000},
        name="of nothing idle for so long",
    ),
    request("nackEntries", f"POST {_GROUP}/nack", lambda size: _ids(size, mode="fail", delay_ms=1)),
    request("ackEntries", f"POST {_GROUP}/ack", _ids),
    request("readGroup", f"POST {_STREAM}/groups/{FRESH}/read?consumer=one", {"limit": 10000}),
    request(
        "readGroup",
        f"POST /v1/streams/{WIDE}/groups/{WIDE}/read?consumer=one",
        {"limit": 10000},
        name="wide",
    ),
    request(
        "readGroup",
        f"POST {_GROUP}/read?consumer={HOLDER}",
        {"limit": 10000, "from": "0"},
        name="its own pending ones",
    ),
    request("rewriteJournal", "POST /v1/admin/rewrite"),
    request(
        "runByPath", f"POST /v1/commands/XADD/wide/*/{'f/v/' * 1000}f", lambda _: b"v" * BODY_BYTES
    ),
]

DESTRUCTIVE: list[Case] = [
    destructive(
        "updateGroup",
        f"PATCH {_GROUP}",
        {"policy": {"max_deliveries": 1, "dead_letter_stream": "dead"}},
    ),
    destructive(
        "readGroup",
        f"POST {_GROUP}/read?consumer=other",
        {"limit": 10000},
        name="under a policy that all pending exceed",
        prepare=_bound_deliveries,
    ),
    destructive(
        "redriveDeadLetters",
        f"POST {_GROUP}/dead-letters/redrive",
        {"limit": 10000},
        prepare=_make_dead_letters,
    ),
    destructive(
        "nackEntries",
        f"POST {_WIDEST}/nack",
        _fail_the_widest(),
        name="the widest become dead letters",
        prepare=_govern_the_widest,
    ),
    destructive(
        "redriveDeadLetters",
        f"POST {_WIDEST}/dead-letters/redrive",
        {"limit": 10000},
        name="the widest",
        prepare=_make_the_widest_dead_letters,
    ),
    destructive("commitBatch", f"POST {_WRITER}/batches/7/commit", _attempts, prepare=_stage),
    destructive("trimStream", f"POST {_STREAM}/trim", {"min_id": f"{FIRST_MS * 2}-0"}),
    destructive("trimStream", f"POST {_ARCHIVING}/trim", {"max_length": 1}, name="into an archive"),
    destructive(
        "readEntries",
        f"GET {_ARCHIVING}/entries?limit=10000",
        name="of an archive",
        prepare=_archive,
    ),
    destructive("trimArchive", f"DELETE {_ARCHIVING}/archive", prepare=_archive),
    destructive("deleteStream", f"DELETE {_STREAM}"),
    destructive("deleteGroup", f"DELETE {_GROUP}"),
    destructive(
        "deleteConsumer", f"DELETE {_GROUP}/consumers/{HOLDER}?pending=release", name="released"
    ),
    destructive(
        "deleteConsumer", f"DELETE {_GROUP}/consumers/{HOLDER}?pending=drop", name="dropped"
    ),
    destructive("createApiKey", "POST /v1/keys", {"name": "all", "grants": _GRANTS}),
    destructive("updateStream", f"PATCH {_STREAM}", {"max_length": 1}, name="a bound"),
]
