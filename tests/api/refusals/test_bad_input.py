"""Bad input: whatever is sent, the answer is a problem that points at it, and nothing changes."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any, NamedTuple
from urllib.parse import quote

import httpx
import pytest

from headgate.app.settings import Settings
from headgate.app.wire.descriptions import group_detail_wire
from headgate.engine.entry import MIN_ID, Draft, EntryId
from headgate.engine.requests.deliveries import GroupCursor, ReadGroup
from headgate.engine.requests.entries import Add
from headgate.engine.requests.groups import CreateGroup, GroupStart
from headgate.engine.requests.streams import DetailStream, ListStreams
from tests.api.conftest import Live, problem_in, refusal_of, running

pytestmark = pytest.mark.asyncio(loop_scope="session")

ORDERS = "/v1/streams/orders"
ENTRIES = f"{ORDERS}/entries"
BATCH = f"{ENTRIES}/batch"
BILLING = f"{ORDERS}/groups/billing"
READ = f"{BILLING}/read?consumer=worker"
ACK = f"{BILLING}/ack?consumer=worker"
NACK = f"{BILLING}/nack?consumer=worker"
EXTEND = f"{BILLING}/extend?consumer=worker"
CLAIM = f"{BILLING}/claim?consumer=worker"
AUTOCLAIM = f"{BILLING}/autoclaim?consumer=worker"

JSON = {"Content-Type": "application/json"}
NDJSON = {"Content-Type": "application/x-ndjson"}
INVALID = (422, "invalid_request")
MALFORMED = (400, "malformed")
BAD_ID = (400, "invalid_id")
HUGE = 10**30


class Case(NamedTuple):
    """A wrong request, and the problem that answers it."""

    method: str
    path: str
    problem: tuple[int, str, str]
    body: Any = None  # text and bytes are sent as they are, anything else as JSON
    headers: dict[str, str] = {}  # noqa: RUF012

    @property
    def content(self) -> str | bytes | None:
        if self.body is None or isinstance(self.body, str | bytes):
            return self.body
        return json.dumps(self.body)

    def __str__(self) -> str:
        return f"{self.method} {self.path} {self.content!r} {self.headers or ''}"[:80]


def invalid(method: str, path: str, pointer: str, body: Any = None, **headers: str) -> Case:
    return Case(method, path, (*INVALID, pointer), body, headers)


async def prepare(live: Live) -> None:
    """Make a stream with a group in which a worker holds an entry."""
    backend = live.gateway.backend
    await backend.perform(Add(b"orders", [Draft(EntryId(ms, 0), (b"v", b"1")) for ms in (1, 2, 3)]))
    await backend.perform(CreateGroup(b"orders", b"billing", GroupStart(MIN_ID)))
    await backend.perform(ReadGroup(b"billing", b"worker", [GroupCursor(b"orders")], limit=1))


async def state(live: Live) -> Any:
    """Return all there is to know, but for what the passing of time changes."""
    backend = live.gateway.backend
    names = [info.name for info in await backend.perform(ListStreams(limit=1000))]
    detail = await backend.perform(DetailStream(b"orders", count=None))
    groups: list[Any] = list(map(group_detail_wire, detail.groups))
    for group in groups:
        for part in [*group["pending_entries"], *group["consumer_details"]]:
            part.pop("idle_ms")
            part.pop("inactive_ms", None)
    return names, detail.info, detail.entries, groups


async def assert_refused(live: Live, case: Case) -> None:
    await prepare(live)
    before = await state(live)
    headers = (JSON if case.body is not None else {}) | case.headers

    # Latin-1, as that is how a header that is no ASCII travels.
    raw = {name.encode(): value.encode("latin-1") for name, value in headers.items()}
    url = httpx.URL(live.url + case.path)
    answer = await live.http.request(case.method, url, content=case.content, headers=raw)

    assert refusal_of(answer) == case.problem, answer.text
    assert len(answer.content) < 2000
    assert await state(live) == before


# Ids

BAD_IDS = [
    *("x", "1-", "-1", "1-1-1", "1--1", "1.5", "1e3", "0x1", "1_0", "1-x", "1-0;", "٣-0", "1-²"),
    *("18446744073709551616", "0-18446744073709551616", "9" * 300, "(", "1-0(", "NaN", "null"),
    *("1-0\n", "\t1-0", "''", "1-*-*", "-1-0"),
]

ID_PLACES: list[tuple[str, str, Any, str]] = [
    ("GET", f"{ENTRIES}/ID", None, "/path/id"),
    ("DELETE", f"{ENTRIES}/ID", None, "/path/id"),
    ("GET", f"{ENTRIES}?start=ID", None, "/query/start"),
    ("GET", f"{ENTRIES}?end=ID", None, "/query/end"),
    ("GET", f"{ENTRIES}?after=ID", None, "/query/after"),
    ("GET", f"{BILLING}/pending?start=ID", None, "/query/start"),
    ("GET", f"{BILLING}/pending?end=ID", None, "/query/end"),
    ("POST", ENTRIES, {"fields": {"a": "b"}, "id": "ID"}, "/body/id"),
    ("POST", ENTRIES, {"fields": {"a": "b"}, "trim": {"min_id": "ID"}}, "/body/trim/min_id"),
    ("POST", BATCH, [{"fields": {"a": "b"}}, {"fields": {"a": "b"}, "id": "ID"}], "/body/1/id"),
    ("POST", f"{ENTRIES}/delete", {"ids": ["1-0", "ID"]}, "/body/ids/1"),
    ("POST", f"{ORDERS}/trim", {"min_id": "ID"}, "/body/min_id"),
    (
        "POST",
        "/v1/read",
        {"streams": [{"stream": "orders", "after": "ID"}]},
        "/body/streams/0/after",
    ),
    ("PUT", f"{ORDERS}/groups/new", {"start": "ID"}, "/body/start"),
    ("PATCH", BILLING, {"start": "ID"}, "/body/start"),
    ("POST", READ, {"from": "ID"}, "/body/from"),
    ("POST", READ, {"ack": ["1-0", "ID"]}, "/body/ack/1"),
    ("POST", ACK, {"ids": ["1-0", "ID"]}, "/body/ids/1"),
    ("POST", NACK, {"ids": ["1-0", "ID"]}, "/body/ids/1"),
    ("POST", EXTEND, {"ids": ["1-0", "ID"]}, "/body/ids/1"),
    ("POST", CLAIM, {"ids": ["1-0", "ID"], "min_idle_ms": 0}, "/body/ids/1"),
    ("POST", AUTOCLAIM, {"start": "ID", "min_idle_ms": 0}, "/body/start"),
]


def id_cases() -> Iterator[Case]:
    for place, (method, path, body, pointer) in enumerate(ID_PLACES):
        # Every place sees a few, so that together they see all: the parser is one.
        for text in ["x", "18446744073709551616", *BAD_IDS[place :: len(ID_PLACES)]]:
            filled = json.loads(json.dumps(body).replace('"ID"', json.dumps(text)))
            where = path.replace("ID", quote(text, safe=""))
            yield Case(method, where, (*BAD_ID, pointer), filled)
    for header in ("x", "W/x", "*", '"1-0", "2-0"', ""):
        entry = {"fields": {"a": "b"}}
        for path, body in ((ENTRIES, entry), (BATCH, [entry])):
            yield Case("POST", path, (*BAD_ID, "/header/If-Match"), body, {"If-Match": header})
    yield Case("GET", f"{ENTRIES}?start=", (*BAD_ID, "/query/start"))
    yield Case("GET", f"{ENTRIES}?after=", (*BAD_ID, "/query/after"))
    yield Case("GET", f"{ENTRIES}?end=(0-0", (*BAD_ID, "/query/end"))
    yield Case("GET", f"{ENTRIES}?start=({2**64 - 1}-{2**64 - 1}", (*BAD_ID, "/query/start"))
    yield Case("POST", ACK, (*BAD_ID, "/body/ids/0"), {"ids": [""]})
    yield Case("POST", ACK, (*BAD_ID, "/body/ids/0"), {"ids": ["$"]})
    yield Case("POST", READ, (*BAD_ID, "/body/from"), {"from": "$"})
    yield Case("PUT", BILLING, (*BAD_ID, "/body/start"), {"start": ">"})


@pytest.mark.parametrize("case", list(id_cases()), ids=str)
async def test_what_is_no_id_is_refused_wherever_an_id_can_stand(shared: Live, case: Case) -> None:
    await assert_refused(shared, case)


# Names

BAD_NAMES = [
    *("a" * 257, "é" * 128 + "a", "🍞" * 65),
    *("a\0b", "\n", "\x1f", "\x7f", "\x85", "\ufffd", "a\tb"),
]
NAME_PLACES = [
    ("GET", "/v1/streams/NAME", "/path/stream"),
    ("PUT", "/v1/streams/NAME", "/path/stream"),
    ("GET", f"{ORDERS}/groups/NAME", "/path/group"),
    ("PUT", f"{ORDERS}/groups/NAME", "/path/group"),
    ("PUT", f"{BILLING}/consumers/NAME", "/path/consumer"),
    ("DELETE", f"{BILLING}/consumers/NAME", "/path/consumer"),
    ("POST", f"{BILLING}/read?consumer=NAME", "/query/consumer"),
    ("GET", f"{BILLING}/pending?consumer=NAME", "/query/consumer"),
]


def name_cases() -> Iterator[Case]:
    for method, path, pointer in NAME_PLACES:
        for name in BAD_NAMES:
            yield invalid(method, path.replace("NAME", quote(name, safe="")), pointer)
        for raw in ("%FF", "a%C3", "%ED%A0%80"):
            yield invalid(method, path.replace("NAME", raw), pointer)
    for name in [*BAD_NAMES, "", "a/b"]:
        body = {"streams": [{"stream": "orders"}, {"stream": name}]}
        yield invalid("POST", "/v1/read", "/body/streams/1/stream", body)
    yield invalid("POST", f"{BILLING}/read?consumer=", "/query/consumer")
    yield invalid("POST", f"{BILLING}/read?consumer=a/b", "/query/consumer")
    for name in ("", "a/b", "a" * 257, "\xff", "\xc3"):
        headers = {"Headgate-Consumer": name}
        pointer = "/header/Headgate-Consumer"
        yield Case("POST", f"{BILLING}/read", (*INVALID, pointer), None, headers)


@pytest.mark.parametrize("case", list(name_cases()), ids=str)
async def test_what_is_no_name_is_refused_wherever_a_name_can_stand(
    shared: Live, case: Case
) -> None:
    await assert_refused(shared, case)


@pytest.mark.parametrize("name", ["a" * 256, "é" * 128, "🍞" * 64, " ", "%", "..."])
async def test_a_name_of_up_to_256_bytes_is_taken(shared: Live, name: str) -> None:
    stream = f"/v1/streams/{quote(name)}"
    group = f"{stream}/groups/{quote(name)}"

    answers = [
        await shared.http.put(stream),
        await shared.http.put(group),
        await shared.http.put(f"{group}/consumers/{quote(name)}"),
        await shared.http.post(f"{group}/read?consumer={quote(name)}"),
    ]

    assert [answer.status_code for answer in answers] == [201, 201, 201, 200]
    assert [answer.json()["name"] for answer in answers[:3]] == [name] * 3


# Fields, types and parameters

ENTRY = {"fields": {"a": "b"}}
TYPES: list[Case] = [
    # an entry
    invalid("POST", ENTRIES, "/body", []),
    invalid("POST", ENTRIES, "/body", "null"),
    invalid("POST", ENTRIES, "/body", '"text"'),
    invalid("POST", ENTRIES, "/body", "42"),
    invalid("POST", ENTRIES, "/body", {}),
    invalid("POST", ENTRIES, "/body", {"fields": {}}),
    invalid("POST", ENTRIES, "/body", {"pairs": []}),
    invalid("POST", ENTRIES, "/body", {**ENTRY, "pairs": [["a", "b"]]}),
    invalid("POST", ENTRIES, "/body/fields", {"fields": [["a", "b"]]}),
    invalid("POST", ENTRIES, "/body/fields", {"fields": "a=b"}),
    *(
        invalid("POST", ENTRIES, "/body/fields/a", {"fields": {"a": value}})
        for value in (42, 4.2, True, None, ["b"], {"b": "c"})
    ),
    invalid("POST", ENTRIES, "/body/fields/~1~0", {"fields": {"/~": 1}}),
    invalid("POST", ENTRIES, "/body/pairs/0", {"pairs": [["a"]]}),
    invalid("POST", ENTRIES, "/body/pairs/1", {"pairs": [["a", "b"], ["a", "b", "c"]]}),
    invalid("POST", ENTRIES, "/body/pairs/0", {"pairs": ["ab"]}),
    invalid("POST", ENTRIES, "/body/pairs/0/1", {"pairs": [["a", 1]]}),
    invalid("POST", ENTRIES, "/body/pairs/0", {"pairs": [{"a": "b"}]}),
    invalid("POST", ENTRIES, "/body", {**ENTRY, "base64": ["c"]}),
    invalid("POST", ENTRIES, "/body/fields/a", {**ENTRY, "base64": ["a"]}),
    invalid("POST", ENTRIES, "/body/fields/a", {**ENTRY, "names_base64": True}),
    invalid("POST", ENTRIES, "/body/base64", {**ENTRY, "base64": "a"}),
    invalid("POST", ENTRIES, "/body/base64/0", {**ENTRY, "base64": [1]}),
    *(
        invalid("POST", ENTRIES, f"/body/{flag}", {**ENTRY, flag: value})
        for flag in ("create_stream", "names_base64")
        for value in ("true", 1, 0, None, "no")
    ),
    invalid("POST", ENTRIES, "/body/id", {**ENTRY, "id": 5}),
    invalid("POST", ENTRIES, "/body/id", {**ENTRY, "id": None}),
    invalid("POST", ENTRIES, "/body/nx", {**ENTRY, "nx": True}),
    invalid("POST", ENTRIES, "/body/trim", {**ENTRY, "trim": 100}),
    invalid("POST", ENTRIES, "/body/trim", {**ENTRY, "trim": {}}),
    invalid("POST", ENTRIES, "/body/trim", {**ENTRY, "trim": {"max_length": 1, "min_id": "1"}}),
    invalid("POST", ENTRIES, "/body/trim", {**ENTRY, "trim": {"max_length": 1, "limit": 1}}),
    invalid("POST", ENTRIES, "/body/trim/max", {**ENTRY, "trim": {"max_length": 1, "max": 1}}),
    invalid(
        "POST",
        ENTRIES,
        "/body/trim/references",
        {**ENTRY, "trim": {"max_length": 1, "references": "kept"}},
    ),
    invalid("POST", f"{ENTRIES}?create_stream=no", "/query/create_stream", ENTRY),
    # a batch
    invalid("POST", BATCH, "/body", {}),
    invalid("POST", BATCH, "/body", ENTRY),
    invalid("POST", BATCH, "/body", []),
    invalid("POST", BATCH, "/body/1", [ENTRY, "x"]),
    invalid("POST", BATCH, "/body/1", [ENTRY, {}]),
    invalid("POST", BATCH, "/body/0/create_stream", [{**ENTRY, "create_stream": True}]),
    invalid("POST", BATCH, "/body/0/trim", [{**ENTRY, "trim": {"max_length": 1}}]),
    invalid("POST", BATCH, "/body/1/fields/b", [ENTRY, {"fields": {"b": "?"}, "base64": ["b"]}]),
    invalid("POST", f"{BATCH}?create_stream=maybe", "/query/create_stream", [ENTRY]),
    # a stream
    *(
        invalid(method, f"{ORDERS}", f"/body/{name}", {name: value})
        for method in ("PUT", "PATCH")
        for name in ("max_length", "max_age_ms")
        for value in ("10", 1.0, 1.5, True, [1], -1, 2**63, HUGE)
    ),
    invalid("PATCH", ORDERS, "/body/max_age_ms", {"max_age_ms": 0}),
    invalid("PATCH", ORDERS, "/body/name", {"name": "other"}),
    invalid("PATCH", ORDERS, "/body", []),
    invalid("POST", f"{ORDERS}/trim", "/body", {}),
    invalid("POST", f"{ORDERS}/trim", "/body", {"max_length": 1, "min_id": "1-0"}),
    invalid("POST", f"{ORDERS}/trim", "/body", {"max_length": 1, "limit": 5}),
    invalid("POST", f"{ORDERS}/trim", "/body/max_length", {"max_length": -1}),
    invalid("POST", f"{ORDERS}/trim", "/body/max_length", {"max_length": "0"}),
    invalid("POST", f"{ORDERS}/trim", "/body/approximate", {"max_length": 0, "approximate": 1}),
    # a group
    invalid("PUT", BILLING, "/body/start", {"start": 0}),
    invalid("PUT", BILLING, "/body/entries_read", {"entries_read": -1}),
    invalid("PUT", BILLING, "/body/entries_read", {"entries_read": "1"}),
    invalid("PUT", BILLING, "/body/create_stream", {"create_stream": "yes"}),
    invalid("PUT", BILLING, "/body/mkstream", {"mkstream": True}),
    invalid("PATCH", BILLING, "/body", {}),
    invalid("PATCH", BILLING, "/body/create_stream", {"start": "0", "create_stream": True}),
    # a delivery
    invalid("POST", READ, "/body/limit", {"limit": 0}),
    invalid("POST", READ, "/body/limit", {"limit": "1"}),
    invalid("POST", READ, "/body/limit", {"limit": 1.0}),
    invalid("POST", READ, "/body/limit", {"limit": True}),
    invalid("POST", READ, "/body/limit", {"limit": 10_001}),
    invalid("POST", READ, "/body/limit", {"limit": HUGE}),
    invalid("POST", READ, "/body/wait_ms", {"wait_ms": -1}),
    invalid("POST", READ, "/body/wait_ms", {"wait_ms": 60_001}),
    invalid("POST", READ, "/body/wait_ms", {"wait_ms": HUGE}),
    invalid("POST", READ, "/body/wait_ms", '{"wait_ms": 1e400}'),
    invalid("POST", READ, "/body/claim_idle_ms", {"claim_idle_ms": -1}),
    invalid("POST", READ, "/body/claim_idle_ms", {"claim_idle_ms": "5s"}),
    invalid("POST", READ, "/body/from", {"from": 0}),
    invalid("POST", READ, "/body/after", {"after": "0"}),
    invalid("POST", READ, "/body/no_ack", {"no_ack": "false"}),
    invalid("POST", READ, "/body/ack", {"ack": "1-0"}),
    invalid("POST", READ, "/body/ack/0", {"ack": [1]}),
    invalid("POST", READ, "/body/ack", {"ack": ["1-0"] * 10_001}),
    invalid("POST", READ, "/body/block", {"block": 1}),
    *(
        invalid("POST", path, pointer, {**body, **wrong})
        for path, body in ((ACK, {}), (NACK, {}), (EXTEND, {}), (CLAIM, {"min_idle_ms": 0}))
        for pointer, wrong in (
            ("/body/ids", {}),
            ("/body/ids", {"ids": []}),
            ("/body/ids", {"ids": "1-0"}),
            ("/body/ids", {"ids": {"0": "1-0"}}),
            ("/body/ids", {"ids": None}),
            ("/body/ids/1", {"ids": ["1-0", 1]}),
            ("/body/ids/0", {"ids": [None]}),
            ("/body/ids", {"ids": ["1-0"] * 10_001}),
            ("/body/consumer", {"ids": ["1-0"], "consumer": "worker"}),
        )
    ),
    invalid("POST", NACK, "/body/mode", {"ids": ["1-0"], "mode": "FAIL"}),
    invalid("POST", NACK, "/body/mode", {"ids": ["1-0"], "mode": None}),
    invalid("POST", CLAIM, "/body/min_idle_ms", {"ids": ["1-0"]}),
    *(
        invalid("POST", CLAIM, f"/body/{name}", {"ids": ["1-0"], "min_idle_ms": 0, name: value})
        for name in ("min_idle_ms", "idle_ms", "time_ms", "retry_count")
        for value in (-1, "1", 1.5, False, 2**63)
    ),
    *(
        invalid("POST", CLAIM, f"/body/{name}", {"ids": ["1-0"], "min_idle_ms": 0, name: "yes"})
        for name in ("force", "just_id")
    ),
    invalid("POST", CLAIM, "/body/last_id", {"ids": ["1-0"], "min_idle_ms": 0, "last_id": "1-0"}),
    invalid("POST", AUTOCLAIM, "/body/min_idle_ms", {}),
    invalid("POST", AUTOCLAIM, "/body/limit", {"min_idle_ms": 0, "limit": 0}),
    invalid("POST", AUTOCLAIM, "/body/limit", {"min_idle_ms": 0, "limit": 10_001}),
    invalid("POST", AUTOCLAIM, "/body/count", {"min_idle_ms": 0, "count": 1}),
    # several streams
    invalid("POST", "/v1/read", "/body", None),
    invalid("POST", "/v1/read", "/body/streams", {}),
    invalid("POST", "/v1/read", "/body/streams", {"streams": []}),
    invalid("POST", "/v1/read", "/body/streams", {"streams": {"orders": "0"}}),
    invalid("POST", "/v1/read", "/body/streams", {"streams": [{"stream": "orders"}] * 101}),
    invalid("POST", "/v1/read", "/body/streams/0/stream", {"streams": [{}]}),
    invalid(
        "POST", "/v1/read", "/body/streams/0/from", {"streams": [{"stream": "a", "from": "0"}]}
    ),
    invalid("POST", "/v1/read", "/body/limit", {"streams": [{"stream": "orders"}], "limit": 0}),
    invalid("POST", "/v1/read", "/body/limit", {"streams": [{"stream": "orders"}], "limit": HUGE}),
    invalid("POST", "/v1/read", "/body/wait_ms", {"streams": [{"stream": "a"}], "wait_ms": 60_001}),
    # deletes
    invalid("POST", f"{ENTRIES}/delete", "/body/ids", {}),
    invalid("POST", f"{ENTRIES}/delete", "/body/ids", {"ids": ["1-0"] * 10_001}),
    invalid("DELETE", f"{ENTRIES}/1-0?references=kept", "/query/references"),
    invalid("POST", f"{ENTRIES}/delete", "/body/references", {"ids": ["1"], "references": 1}),
    invalid("DELETE", f"{BILLING}/consumers/worker?pending=forget", "/query/pending"),
    # bodies that are left out
    *(
        invalid("POST", path, "/body")
        for path in (ENTRIES, ACK, NACK, EXTEND, CLAIM, AUTOCLAIM, f"{ENTRIES}/delete")
    ),
    invalid("PATCH", ORDERS, "/body"),
    Case("POST", BATCH, (*MALFORMED, "/body")),
    Case("POST", BATCH, (*INVALID, "/body"), "", NDJSON),
    # parameters
    *(
        invalid("GET", f"{ENTRIES}?{query}", f"/query/{query.partition('=')[0]}")
        for query in (
            *("limit=0", "limit=-1", "limit=x", "limit=1.5", "limit=", "limit=10001", "limit=true"),
            *(f"limit={HUGE}", f"limit={'9' * 5000}", "limit=1&limit=2", "limit=1&limit=1"),
            *("order=up", "order=", "order=ASC", "count=1", "LIMIT=1", "wait_ms=1", "no_ack=1"),
            *("after=0&start=1", "after=0&order=asc"),
        )
    ),
    invalid("GET", f"{ENTRIES}?after=0&wait_ms=-1", "/query/wait_ms"),
    invalid("GET", f"{ENTRIES}?after=0&wait_ms=60001", "/query/wait_ms"),
    invalid("GET", f"{ENTRIES}?after=0&wait_ms={HUGE}", "/query/wait_ms"),
    invalid("GET", f"{ENTRIES}?after=0&limit=10001", "/query/limit", Accept="application/x-ndjson"),
    invalid("GET", f"{ENTRIES}?a%2Fb~=1", "/query/a~1b~0"),
    invalid("GET", f"{ENTRIES}?%FF=1", "/query/\ufffd"),
    invalid("GET", f"{ENTRIES}/1-0?x=1", "/query/x"),
    invalid("GET", "/v1/streams?limit=0", "/query/limit"),
    invalid("GET", "/v1/streams?limit=10001", "/query/limit"),
    invalid("GET", "/v1/streams?cursor=!", "/query/cursor"),
    invalid("GET", "/v1/streams?cursor=YQ", "/query/cursor"),
    invalid("GET", "/v1/streams?cursor=%C3%A4", "/query/cursor"),
    invalid("GET", "/v1/streams?prefix=a&prefix=b", "/query/prefix"),
    invalid("GET", "/v1/streams?Prefix=a", "/query/Prefix"),
    invalid("GET", f"{ORDERS}?full=perhaps", "/query/full"),
    invalid("GET", f"{ORDERS}?full=true&count=-1", "/query/count"),
    invalid("GET", f"{ORDERS}?full=true&count=10001", "/query/count"),
    invalid("GET", f"{BILLING}/pending?limit=0", "/query/limit"),
    invalid("GET", f"{BILLING}/pending?min_idle_ms=-1", "/query/min_idle_ms"),
    invalid("GET", f"{BILLING}/pending?min_idle_ms={2**63}", "/query/min_idle_ms"),
    invalid("GET", f"{BILLING}/pending/summary?consumer=a", "/query/consumer"),
    invalid("GET", f"{BILLING}?full=true", "/query/full"),
    invalid("POST", f"{ACK}&force=1", "/query/force", {"ids": ["1-0"]}),
    invalid("POST", f"{ACK}&consumer=other", "/query/consumer", {"ids": ["1-0"]}),
    invalid("DELETE", f"{ORDERS}?force=1", "/query/force"),
    invalid("DELETE", f"{BILLING}?force=1", "/query/force"),
    invalid("GET", "/healthz?x=1", "/query/x"),
    invalid("GET", "/metrics?x=1", "/query/x"),
    # what answers there are
    Case("GET", ENTRIES, (406, "not_acceptable", "/header/Accept"), None, {"Accept": "text/csv"}),
]


@pytest.mark.parametrize("case", TYPES, ids=str)
async def test_what_is_not_understood_is_refused_where_it_stands(shared: Live, case: Case) -> None:
    await assert_refused(shared, case)


# What is not there

MISSING = [
    ("GET", "/v1/streams/other", None, "stream_not_found"),
    ("GET", "/v1/streams/other/entries", None, "stream_not_found"),
    ("GET", "/v1/streams/other/entries?after=0", None, "stream_not_found"),
    ("GET", "/v1/streams/other/entries?after=$&wait_ms=60000", None, "stream_not_found"),
    ("GET", "/v1/streams/other/entries/1-0", None, "stream_not_found"),
    ("DELETE", "/v1/streams/other/entries/1-0", None, "stream_not_found"),
    ("POST", "/v1/streams/other/entries/delete", {"ids": ["1-0"]}, "stream_not_found"),
    ("GET", "/v1/streams/other/groups", None, "stream_not_found"),
    ("GET", "/v1/streams/other/events", None, "stream_not_found"),
    ("POST", "/v1/read", {"streams": [{"stream": "other"}], "wait_ms": 60_000}, "stream_not_found"),
    ("POST", f"{ORDERS}/groups/other/read?consumer=c", {"wait_ms": 60_000}, "group_not_found"),
    ("GET", f"{ENTRIES}/9-9", None, "entry_not_found"),
    ("DELETE", f"{ENTRIES}/9-9", None, "entry_not_found"),
]


@pytest.mark.parametrize(("method", "path", "body", "code"), MISSING)
async def test_what_is_not_there_is_not_found_at_once(
    shared: Live, method: str, path: str, body: Any, code: str
) -> None:
    await assert_refused(shared, Case(method, path, (404, code, ""), body))


async def test_a_missing_consumer_is_not_found(shared: Live) -> None:
    path = f"{BILLING}/consumers/ghost"
    await assert_refused(shared, Case("DELETE", path, (404, "not_found", "/path/consumer")))


# Bodies that are no JSON

NO_JSON: list[str | bytes] = [
    *(" ", "{", "}", "nul", "{'fields':{}}", '{"fields":{"a":"b"},}', '{"fields":{"a":"b"}} x'),
    *('{"fields":{"a":"\\ud800"}}', '{"fields":{"\\udc00":"b"}}', '{"\\ud800":1}'),
    *(
        b'{"fields":{"a":"\xff"}}',
        b"\x00",
        b"\xef\xbb\xbf{}",
        '{"fields":{"a":"b"}}'.encode("utf-16"),
    ),
    *("[" * 100_000, '{"a":' * 100_000, '{"fields":{"a":"\n"}}', '{"id":' + "9" * 5000 + "}"),
    *("fields=a", "<entry/>", "\u00a0{}"),
]


@pytest.mark.parametrize("body", NO_JSON, ids=lambda body: repr(body)[:30])
@pytest.mark.parametrize(
    ("method", "path"), [("POST", ENTRIES), ("POST", BATCH), ("POST", READ), ("PATCH", ORDERS)]
)
async def test_what_is_no_json_is_malformed(
    shared: Live, method: str, path: str, body: str | bytes
) -> None:
    await assert_refused(shared, Case(method, path, (*MALFORMED, "/body"), body))


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
@pytest.mark.parametrize(
    ("method", "path", "name"), [("POST", READ, "wait_ms"), ("PATCH", ORDERS, "max_length")]
)
async def test_a_number_that_is_none_is_malformed(
    shared: Live, method: str, path: str, name: str, number: str
) -> None:
    body = f'{{"{name}": {number}}}'
    await assert_refused(shared, Case(method, path, (*MALFORMED, "/body"), body))


@pytest.mark.parametrize(
    "media_type",
    [
        "",
        "text/plain",
        "application/x-www-form-urlencoded",
        "text/json",
        "json",
        "application/jsonp",
    ],
)
@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", ENTRIES), ("POST", BATCH), ("POST", ACK), ("PUT", BILLING), ("PATCH", BILLING)],
)
async def test_a_body_of_another_media_type_is_refused(
    shared: Live, method: str, path: str, media_type: str
) -> None:
    headers = {"Content-Type": media_type}
    problem = (415, "unsupported_media_type", "/header/Content-Type")
    await assert_refused(shared, Case(method, path, problem, ENTRY, headers))


@pytest.mark.parametrize("media_type", ["application/json; charset=utf-8", "Application/JSON"])
async def test_a_media_type_may_be_written_in_several_ways(shared: Live, media_type: str) -> None:
    answer = await shared.http.post(
        ENTRIES, content=json.dumps(ENTRY), headers={"Content-Type": media_type}
    )

    assert answer.status_code == 201


@pytest.mark.parametrize("path", [ENTRIES, ACK, READ])
async def test_lines_are_for_batches_only(shared: Live, path: str) -> None:
    problem = (415, "unsupported_media_type", "/header/Content-Type")
    await assert_refused(shared, Case("POST", path, problem, ENTRY, NDJSON))


# Batches

WRONG_LINES = [
    ("{", *MALFORMED, ""),
    ("", *MALFORMED, ""),
    ('{"fields":{"a":"\\ud800"}}', *MALFORMED, ""),
    ("[]", *INVALID, ""),
    ('{"fields":{"a":1}}', *INVALID, "/fields/a"),
    ('{"fields":{"a":"1"},"x":1}', *INVALID, "/x"),
    ('{"fields":{}}', *INVALID, ""),
    ('{"id":5,"fields":{"a":"1"}}', *INVALID, "/id"),
]


@pytest.mark.parametrize(("line", "status", "code", "pointer"), WRONG_LINES)
@pytest.mark.parametrize("number", [1, 500])
async def test_one_wrong_line_spoils_the_batch_and_is_named(
    shared: Live, number: int, line: str, status: int, code: str, pointer: str
) -> None:
    lines = ['{"fields":{"a":"b"}}'] * 1000
    lines[number - 1] = line
    where = f"/body/{number - 1}{pointer}"

    case = Case("POST", BATCH, (status, code, where), "\n".join(lines), NDJSON)
    await assert_refused(shared, case)

    answer = await shared.http.post(BATCH, content=case.content, headers=NDJSON)
    problem = problem_in(answer)
    assert problem["detail"].startswith(f"{where}: line {number}: ")
    assert "at line" not in problem["detail"]


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"id": "x"}, (*BAD_ID, "/body/499/id")),
        ({"id": "1-0"}, (409, "id_not_greater", "/body/499/id")),
        ({"base64": ["a"]}, (*INVALID, "/body/499/fields/a")),
        ({"x": 1}, (*INVALID, "/body/499/x")),
    ],
)
@pytest.mark.parametrize("headers", [JSON, NDJSON])
async def test_one_wrong_entry_spoils_the_batch_and_is_pointed_at(
    shared: Live, headers: dict[str, str], wrong: dict[str, Any], problem: tuple[int, str, str]
) -> None:
    batch = [dict(ENTRY) for _ in range(1000)]
    batch[499] |= wrong
    body = "\n".join(map(json.dumps, batch)) if headers is NDJSON else json.dumps(batch)

    await assert_refused(shared, Case("POST", BATCH, problem, body, headers))


async def test_of_many_mistakes_a_hundred_are_told(shared: Live) -> None:
    entry = {"fields": {f"f{index}": 1 for index in range(1000)}}

    answer = await shared.http.post("/v1/streams/orders/entries", json=entry)

    problem = problem_in(answer)
    assert len(problem["errors"]) == 100
    assert "and 999 more" in problem["detail"]


@pytest.mark.parametrize(
    ("path", "body", "pointer"),
    [
        (BATCH, [{"fields": {"a": 1}}] * 5000, "/body/0/fields/a"),
        ("/v1/streams/orders/groups/billing/ack", {"ids": [1] * 50_000}, "/body/ids/0"),
        ("/v1/streams/orders/groups/billing/ack", {"ids": [1] * 200_000}, "/body/ids"),
        (BATCH, [{}] * 200_000, "/body/0"),
        ("/v1/streams/orders/groups/billing/ack", {f"x{n}": 1 for n in range(50_000)}, "/body"),
        (BATCH, [{"fields": {f"x{n}": "1" for n in range(2000)}}], "/body/0/fields"),
    ],
)
async def test_the_first_of_a_million_mistakes_is_enough(
    shared: Live, path: str, body: Any, pointer: str
) -> None:
    answer = await shared.http.post(path, json=body)

    assert answer.status_code == 422
    assert [error["pointer"] for error in problem_in(answer)["errors"]] == [pointer]


# Bounds


@pytest.fixture
async def small() -> AsyncIterator[Live]:
    """A gateway that takes little."""
    settings = Settings(
        body_bytes_max=2000,
        batch_entries_max=3,
        read_entries_max=100,
        ids_max=100,
        wait_ms_max=1000,
        waiters_max=2,
    )
    async with running(settings) as gateway:
        yield gateway


async def chunks(text: str, size: int = 100) -> AsyncIterator[bytes]:
    for start in range(0, len(text), size):
        yield text[start : start + size].encode()


@pytest.mark.asyncio(loop_scope="function")
@pytest.mark.parametrize("declared", [True, False])
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", ENTRIES),
        ("POST", BATCH),
        ("POST", READ),
        ("PUT", ORDERS),
        ("PATCH", ORDERS),
        ("GET", ENTRIES),
        ("DELETE", ORDERS),
    ],
)
async def test_a_body_over_the_bound_is_refused(
    small: Live, method: str, path: str, declared: bool
) -> None:
    await prepare(small)
    before = await state(small)
    text = json.dumps({"fields": {"a": "b" * 2000}})
    content = text if declared else chunks(text)

    answer = await small.http.request(method, path, content=content, headers=JSON)

    assert refusal_of(answer) == (413, "too_large", "/body")
    assert "2000 bytes" in problem_in(answer)["detail"]
    assert await state(small) == before


@pytest.mark.asyncio(loop_scope="function")
@pytest.mark.parametrize("declared", [True, False])
async def test_a_body_at_the_bound_is_taken(small: Live, declared: bool) -> None:
    text = json.dumps(ENTRY).ljust(2000)

    answer = await small.http.post(
        ENTRIES, content=text if declared else chunks(text), headers=JSON
    )

    assert answer.status_code == 201


@pytest.mark.asyncio(loop_scope="function")
async def test_bounds_are_those_of_the_settings(small: Live) -> None:
    entries = [ENTRY] * 4
    lines = "\n".join(map(json.dumps, entries))
    ids = {"ids": ["1-0"] * 101}
    cases = [
        invalid("POST", BATCH, "/body", entries),
        Case("POST", BATCH, (*INVALID, "/body"), lines, NDJSON),
        invalid("GET", f"{ENTRIES}?limit=101", "/query/limit"),
        invalid("GET", f"{ORDERS}?full=true&count=101", "/query/count"),
        invalid("GET", "/v1/streams?limit=101", "/query/limit"),
        invalid("GET", f"{BILLING}/pending?limit=101", "/query/limit"),
        invalid("GET", f"{ENTRIES}?after=0&wait_ms=1001", "/query/wait_ms"),
        invalid("POST", READ, "/body/limit", {"limit": 101}),
        invalid("POST", READ, "/body/wait_ms", {"wait_ms": 1001}),
        invalid("POST", READ, "/body/ack", {"ack": ids["ids"]}),
        invalid("POST", ACK, "/body/ids", ids),
        invalid("POST", NACK, "/body/ids", ids),
        invalid("POST", EXTEND, "/body/ids", ids),
        invalid("POST", CLAIM, "/body/ids", {**ids, "min_idle_ms": 0}),
        invalid("POST", AUTOCLAIM, "/body/limit", {"limit": 101, "min_idle_ms": 0}),
        invalid("POST", f"{ENTRIES}/delete", "/body/ids", ids),
    ]
    for case in cases:
        answer = await small.http.request(
            case.method, case.path, content=case.content, headers=case.headers or JSON
        )
        assert refusal_of(answer) == case.problem, (case, answer.text)


@pytest.mark.asyncio(loop_scope="function")
async def test_one_waiter_too_many_is_told_when_to_come_again(small: Live) -> None:
    await small.http.put(ORDERS)
    await small.create_group("orders", "billing")
    poll = f"{ENTRIES}?after=$&wait_ms=1000"
    waiting = [asyncio.create_task(small.http.get(poll)) for _ in range(2)]
    await small.until_waiting(2)

    cursor = {"stream": "orders", "after": "$"}
    answers = [
        await small.http.get(poll),
        await small.http.post(READ, json={"wait_ms": 1000}),
        await small.http.post("/v1/read", json={"streams": [cursor], "wait_ms": 1}),
    ]

    for answer in answers:
        assert refusal_of(answer) == (429, "too_many_waiters", "")
        assert answer.json()["retryable"]
        assert int(answer.headers["Retry-After"]) * 1000 >= answer.json()["retry_after_ms"] > 0
    assert (await small.http.get(f"{ENTRIES}?after=$")).status_code == 200  # no wait
    await small.append("orders", "1")
    assert [len((await task).json()["entries"]) for task in waiting] == [1, 1]
    assert (await small.http.get(poll.replace("$", "0"))).status_code == 200
