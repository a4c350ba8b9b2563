"""Bad input: whatever is sent, the answer is a problem that points at it, and nothing changes.

Types, ranges and names of fields and parameters are tried in every place: see test_places.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from itertools import chain
from typing import Any, NamedTuple
from urllib.parse import quote

import httpx
import pytest

from headgate.app.settings import Settings
from headgate.engine.limits import ENTRY_FIELDS_MAX
from tests.api.conftest import Live, problem_in, refusal_of, running
from tests.api.refusals.places import DOCUMENT, HERE, Place, kinds, places
from tests.arrow_bodies import ARROW

pytestmark = pytest.mark.asyncio(loop_scope="session")

ORDERS = "/v1/streams/orders"
ENTRIES = f"{ORDERS}/entries"
BATCH = f"{ENTRIES}/batch"
BILLING = f"{ORDERS}/groups/billing"
READ, ACK, NACK, EXTEND, CLAIM, AUTOCLAIM = (
    f"{BILLING}/{verb}?consumer=worker"
    for verb in ("read", "ack", "nack", "extend", "claim", "autoclaim")
)
REDRIVE = f"{BILLING}/dead-letters/redrive"
ENTRY = {"fields": {"a": "b"}}
KEY = {"Idempotency-Key": "k"}
EVENTS = {"Accept": "text/event-stream"}
HOOK = {"url": "https://hooks.example/"}
REQUIRED = (400, "consumer_required", "/query/consumer")

JSON = {"Content-Type": "application/json"}
NDJSON = {"Content-Type": "application/x-ndjson"}
INVALID = (422, "invalid_request")
MALFORMED = (400, "malformed")
BAD_ID = (400, "invalid_id")


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


def invalid(method: str, path: str, pointer: str, body: Any = None, **headers: str) -> Case:
    return Case(method, path, (*INVALID, pointer), body, headers)


async def check_refused(live: Live, *cases: Case) -> None:
    """Check that cases are refused, and change nothing of a group that holds an entry."""
    await live.create_group("orders", "billing")
    for number in (1, 2, 3):
        await live.http.post(ENTRIES, json={"id": f"{number}-0", **ENTRY})
    await live.read_group("orders", "billing", "worker", limit=1)
    before = live.position
    for case in cases:
        headers = (JSON if case.body is not None else {}) | case.headers
        # Latin-1, as that is how a header that is no ASCII travels.
        raw = {name.encode(): value.encode("latin-1") for name, value in headers.items()}
        url = httpx.URL(live.url + case.path)
        answer = await live.http.request(case.method, url, content=case.content, headers=raw)
        where = f"{case.method} {case.path} {case.content!r:.80}: {answer.text:.500}"
        assert refusal_of(answer) == case.problem, where
        assert len(answer.content) < 2000, where
    assert live.position == before


BAD_IDS = [
    *("x", "1-", "-1", "1-1-1", "1--1", "1.5", "1e3", "0x1", "1_0", "1-x", "1-0;", "٣-0", "1-²"),
    *("18446744073709551616", "0-18446744073709551616", "9" * 300, "(", "1-0(", "NaN", "null"),
    *("1-0\n", "\t1-0", "''", "1-*-*", "-1-0"),
]
IDS = {"id", "ids", "min_id", "start", "end", "after", "from", "to", "ack"}
"""The names of ids in requests."""


def id_places() -> Iterator[Place]:
    """Yield the places of ids, in requests that are right otherwise."""
    for place in chain.from_iterable(map(places, DOCUMENT["paths"])):
        *_, name = (part for part in place.pointer.split("/") if not part.isdigit())
        is_text = "string" in kinds(place.schema, DOCUMENT) and "enum" not in place.schema
        if (
            name in IDS and is_text and not place.path.startswith("/v1/events")
        ):  # a place of a pattern is no id
            match place.body:
                case {"id": _} | {"trim": _}:
                    yield place._replace(body=ENTRY | place.body)
                case [{"id": _} as entry]:
                    yield place._replace(body=[ENTRY | entry])
                case _:
                    yield place


def id_cases() -> Iterator[Case]:
    for number, place in enumerate(found := [*id_places()]):
        # Every place sees a few, so that together they see all: the parser is one.
        for text in ["x", "18446744073709551616", *BAD_IDS[number :: len(found)]]:
            body = json.loads(json.dumps(place.body).replace(f'"{HERE}"', json.dumps(text)))
            path = place.path.replace(HERE, quote(text, safe=""))
            yield Case(place.method.upper(), path, (*BAD_ID, place.pointer), body)
    for header in ("x", "W/x", "*", '"1-0", "2-0"', ""):
        for path, body in ((ENTRIES, ENTRY), (BATCH, [ENTRY])):
            yield Case("POST", path, (*BAD_ID, "/header/If-Match"), body, {"If-Match": header})
    for name, text in (("start", ""), ("after", ""), ("end", "(0-0")):
        yield Case("GET", f"{ENTRIES}?{name}={text}", (*BAD_ID, f"/query/{name}"))
    yield Case("GET", f"{ENTRIES}?start=({2**64 - 1}-{2**64 - 1}", (*BAD_ID, "/query/start"))
    for text in ("", "$"):
        yield Case("POST", ACK, (*BAD_ID, "/body/ids/0"), {"ids": [text]})
    yield Case("POST", READ, (*BAD_ID, "/body/from"), {"from": "$"})
    yield Case("GET", f"{ORDERS}/splits?after=$", (*BAD_ID, "/query/after"))
    yield Case("GET", f"{ENTRIES}?start=x", (*BAD_ID, "/query/start"), None, {"Accept": ARROW})
    yield Case("PUT", BILLING, (*BAD_ID, "/body/start"), {"start": ">"})


async def test_what_is_no_id_is_refused_wherever_an_id_can_stand(shared: Live) -> None:
    await check_refused(shared, *id_cases())


BAD_NAMES = [
    *("a" * 257, "é" * 128 + "a", "🍞" * 65),
    *("a\0b", "\n", "\x1f", "\x7f", "\x85", "\ufffd", "a\tb"),
]
NAME_PLACES = [
    *((method, "/v1/streams/NAME", "/path/stream") for method in ("GET", "PUT")),
    *((method, f"{ORDERS}/groups/NAME", "/path/group") for method in ("GET", "PUT")),
    *((method, f"{BILLING}/consumers/NAME", "/path/consumer") for method in ("PUT", "DELETE")),
    ("POST", f"{BILLING}/read?consumer=NAME", "/query/consumer"),
    ("GET", f"{BILLING}/pending?consumer=NAME", "/query/consumer"),
]


def name_cases() -> Iterator[Case]:
    for method, path, pointer in NAME_PLACES:
        for raw in (*(quote(name, safe="") for name in BAD_NAMES), "%FF", "a%C3", "%ED%A0%80"):
            yield invalid(method, path.replace("NAME", raw), pointer)
    for name in [*BAD_NAMES, "", "a/b"]:
        body = {"streams": [{"stream": "orders"}, {"stream": name}]}
        yield invalid("POST", "/v1/read", "/body/streams/1/stream", body)
    for name in ("", "a/b"):
        yield invalid("POST", f"{BILLING}/read?consumer={name}", "/query/consumer")
    for name in ("", "a/b", "a" * 257, "\xff", "\xc3"):
        headers = {"Headgate-Consumer": name}
        pointer = "/header/Headgate-Consumer"
        yield Case("POST", f"{BILLING}/read", (*INVALID, pointer), None, headers)


async def test_what_is_no_name_is_refused_wherever_a_name_can_stand(shared: Live) -> None:
    await check_refused(shared, *name_cases())


async def test_a_name_with_a_slash_in_a_path_is_told_what_is_wrong_with_it(shared: Live) -> None:
    told = []
    for method, path in (
        ("POST", "/v1/streams/a/b/entries"),
        ("PUT", "/v1/streams/a/groups/b/c"),
        ("POST", "/v1/channels/a/b/messages"),
        ("PUT", "/v1/schedules/a/b"),
    ):
        answer = await shared.http.request(method, path, json=ENTRY)
        assert refusal_of(answer) == (404, "not_found", ""), path
        told.append(problem_in(answer)["detail"])
    async with httpx.AsyncClient(base_url=shared.url) as plain:  # the document has this path
        encoded = await plain.post("/v1/streams/a%2Fb/entries", json=ENTRY)
    assert encoded.status_code == 404
    told.append(encoded.json()["detail"])
    elsewhere = problem_in(await shared.http.get("/v1/nothing"))["detail"]

    assert [text for text in told if "a name cannot contain `/`" not in text] == []
    assert "`/`" not in elsewhere


async def test_a_name_of_up_to_256_bytes_is_taken(shared: Live) -> None:
    for name in ("a" * 256, "é" * 128, "🍞" * 64, " ", "%", "...", "käse & brot? #1 50%"):
        stream = f"/v1/streams/{quote(name)}"
        group = f"{stream}/groups/{quote(name)}"
        for path in (stream, group, f"{group}/consumers/{quote(name)}"):
            answer = await shared.http.put(path)
            assert (answer.status_code, answer.json()["name"]) == (201, name)
        assert (await shared.http.post(f"{group}/read?consumer={quote(name)}")).status_code == 200


NO_BASE64 = ["b", "?", "YQ", "YQ==\n", "ä"]
TRIM = {"max_length": 1, "min_id": "1"}
WIDE = {"fields": {f"n{number}": "" for number in range(ENTRY_FIELDS_MAX + 1)}}
ONCE = {"max_deliveries": 1, "dead_letter_stream": "dead_letters"}
POLICIES: list[tuple[dict[str, Any], str]] = [
    ({"claim_idle_ms": True}, "/claim_idle_ms"),
    ({"backoff_ms": [1, -2]}, "/backoff_ms/1"),
    ({"backoff_ms": [1] * 33}, "/backoff_ms"),
    ({"max_deliveries": 3}, ""),
    ({"dead_letter_stream": "dead_letters"}, ""),
    *(
        ({**ONCE, "dead_letter_stream": name}, "/dead_letter_stream")
        for name in ("orders", "", "a/b", "ü" * 129)
    ),
    ({"filters": [{"exact": {"kind": 1}}]}, "/filters/0/exact/kind"),
    ({"filters": [{"equals": {"kind": "x"}}]}, "/filters/0/equals"),
    ({"filters": [{"exact": {"kind": "x" * 4096}}]}, "/filters"),
    ({"filters": [{"present": "x"}] * 64}, "/filters/63"),
    ({"filters": [{"present": "x"}] * 65}, "/filters"),
    ({"key_field": ""}, "/key_field"),
    ({"key_field": "x" * 257}, "/key_field"),
]
FILTERS = [
    ('{"exact": {"a/b": 1}}', "/exact/a~1b"),
    ('[{"all": []}]', "/0/all"),
    *(("{", ""), ("", ""), (json.dumps({"exact": {"a": "x" * 5_000}}), "")),
]
SELECTIONS = [
    *(("order=desc", ARROW, "order"), ("after=0&wait_ms=5", ARROW, "wait_ms")),
    *(("after=0&start=-", ARROW, "after"), ("columns=[1]", ARROW, "columns")),
    ('filter={"present": "a"}&limit=5', ARROW, "limit"),
    ('filter={"exact": {"a": 1}}', ARROW, "filter/exact/a"),
    *(("columns=[1]", "*/*", "columns"), ("compression=zstd", "*/*", "compression")),
]
BAD_URLS = [
    *("https://127.0.0.2.nip/\n", "https://10.0.0.1/", "http://example.com:99999/"),
    *("ftp://example.com/", "https://x/" + "a" * 2048),
]
BAD_HEADERS: list[dict[str, str]] = [
    *({name: "x"} for name in ("Host", "webhook-id", "CE-id", "X A")),
    *({"X-A": "a\r\nb: c"}, {"X-A": "a", "x-a": "b"}),
    {f"x-{number}": "a" for number in range(21)},
]
SCHEDULES: list[tuple[dict[str, Any], str]] = [
    *(({"cron": text}, "/cron") for text in ("0 0 30 2 *", "every day")),
    *(({"time_zone": name}, "/time_zone") for name in ("Mars", "../zones")),
    *(({"stream": name}, "/stream") for name in ("", "a/b")),
    *(({"fields": fields}, "/fields") for fields in ({"x": "y" * 65_536}, {"_due_ms": "1"})),
    ({"fields": {}}, ""),
]
TOGETHER: dict[tuple[str, str], list[tuple[str, Any]]] = {
    ("POST", ENTRIES): [
        ("/body", {}),
        ("/body", {"fields": {}}),
        ("/body", {"pairs": []}),
        ("/body", {**ENTRY, "pairs": [["a", "b"]]}),
        ("/body/fields/~1~0", {"fields": {"/~": 1}}),
        ("/body/pairs/1", {"pairs": [["a", "b"], ["a", "b", "c"]]}),
        ("/body/pairs/0/1", {"pairs": [["a", 1]]}),
        ("/body", {**ENTRY, "base64": ["c"]}),
        *(("/body/fields/a", {"fields": {"a": a}, "base64": ["a"]}) for a in NO_BASE64),
        ("/body/fields/~0~1", {"fields": {"~/": "?"}, "base64": ["~/"]}),
        ("/body/pairs/1", {"pairs": [["a", "YQ=="], ["a", "?"]], "base64": ["a"]}),
        ("/body/fields/a", {**ENTRY, "names_base64": True}),
        ("/body/fields", WIDE),
        *(("/body/trim", {**ENTRY, "trim": trim}) for trim in ({}, TRIM)),
        ("/body/trim", {**ENTRY, "trim": {"max_length": 1, "limit": 1}}),
    ],
    ("POST", BATCH): [
        ("/body", []),
        *(("/body/1", [ENTRY, {}]), ("/body/1/fields", [ENTRY, WIDE])),
        ("/body/0/create_stream", [{**ENTRY, "create_stream": True}]),
        ("/body/0/trim", [{**ENTRY, "trim": {"max_length": 1}}]),
        ("/body/1/fields/b", [ENTRY, {"fields": {"b": "?"}, "base64": ["b"]}]),
    ],
    ("POST", f"{ORDERS}/trim"): [
        ("/body", {}),
        ("/body", TRIM),
        ("/body", {"max_length": 1, "limit": 5}),
    ],
    ("PATCH", BILLING): [("/body", {})],
    ("POST", READ): [
        ("/body/wait_ms", '{"wait_ms": 1e400}'),
        ("/body/wait_ms", {"wait_ms": 60_001}),
        ("/body/limit", {"limit": 10_001}),
        ("/body/ack", {"ack": ["1-0"] * 10_001}),
    ],
    **{
        ("POST", path): [*(("/body/ids", {**more, "ids": ids}) for ids in ([], ["1-0"] * 10_001))]
        for path, more in ((ACK, {}), (NACK, {}), (EXTEND, {}), (CLAIM, {"min_idle_ms": 0}))
    },
    ("POST", "/v1/read"): [
        ("/body/streams", {"streams": []}),
        (
            "/body/filter/exact/a",
            {"streams": [{"stream": "orders"}], "filter": {"exact": {"a": 1}}},
        ),
        ("/body/filter", {"streams": [{"stream": "orders"}], "filter": 5}),
        ("/body/streams", {"streams": [{"stream": "orders"}] * 101}),
    ],
    ("POST", "/v1/commands"): [("/body/1", ["XLEN", None]), ("/body/1", ["XLEN", {}])],
    ("POST", f"{ENTRIES}/delete"): [("/body/ids", {"ids": ["1-0"] * 10_001})],
    **{
        ("GET", f"{ENTRIES}?{query}"): [(f"/query/{query.partition('=')[0]}", None)]
        for query in ("limit=10001", "limit=1&limit=1", "LIMIT=1", "after=0&start=1", "wait_ms=1")
    },
    ("GET", f"{ENTRIES}?after=0&wait_ms=60001"): [("/query/wait_ms", None)],
    ("GET", f"{ENTRIES}?after=0&order=asc"): [("/query/after", None)],
    ("GET", f"{ENTRIES}?a%2Fb~=1"): [("/query/a~1b~0", None)],
    ("GET", f"{ENTRIES}?%FF=1"): [("/query/\ufffd", None)],
    **{
        ("GET", f"/v1/streams?cursor={cursor}"): [("/query/cursor", None)]
        for cursor in ("!", "YQ", "%C3%A4")
    },
    ("GET", f"{BILLING}/pending?min_idle_ms={2**63}"): [("/query/min_idle_ms", None)],
    ("POST", f"{ACK}&consumer=other"): [("/query/consumer", {"ids": ["1-0"]})],
    ("POST", NACK): [("/body/error", {"ids": ["1-0"], "error": "x" * 1_001})],
    ("POST", REDRIVE): [
        ("/body/limit", {"limit": 10**9}),
        ("/body/ids", {"ids": []}),
        ("/body/ids/1", {"ids": ["1-0", 5]}),
    ],
    ("POST", "/v1/bulk/plan"): [
        ("/body/cursors/0/stream", {"cursors": [{"stream": "a/b"}]}),
        ("/body/cursors/1/stream", {"cursors": [{"stream": "a"}, {"stream": "a"}]}),
        ("/body/cursors/0/after", {"cursors": [{"stream": "a", "after": "+"}]}),
        ("/body/cursors/0/epoch", {"cursors": [{"stream": "a", "epoch": "x"}]}),
        ("/body/cursors", {"cursors": [{"stream": f"s{n}"} for n in range(1001)]}),
    ],
    **{
        ("GET", f"{ENTRIES}?filter={quote(condition)}{more}"): [(f"/query/filter{place}", None)]
        for condition, place in FILTERS
        for more in ("", "&after=0", "&after=0&wait_ms=10")
    },
    **{
        (method, path): [(f"/body/policy{place}", {"policy": policy}) for policy, place in POLICIES]
        for method, path in (("PUT", f"{ORDERS}/groups/new"), ("PATCH", BILLING))
    },
    ("GET", f"{BILLING}/events?credit=99999999"): [("/query/credit", None)],
    ("PUT", f"{BILLING}/push"): [
        *(("/body/url", {"url": url}) for url in BAD_URLS),
        *(("/body/headers", {**HOOK, "headers": headers}) for headers in BAD_HEADERS),
        ("/body/secret", {**HOOK, "secret": "whsec_x"}),
    ],
}
"""Pointers and bodies that are wrong only together with something else, or by their length."""

LEFT_OUT = [
    *(("POST", path) for path in (ENTRIES, ACK, NACK, EXTEND, CLAIM, AUTOCLAIM, "/v1/read")),
    ("POST", f"{ENTRIES}/delete"),
    ("PATCH", ORDERS),
]


async def test_what_makes_no_sense_together_is_refused_where_it_stands(shared: Live) -> None:
    lines = {"Accept": "application/x-ndjson"}
    await check_refused(
        shared,
        *(
            invalid(method, path, pointer, body)
            for (method, path), wrong in TOGETHER.items()
            for pointer, body in wrong
        ),
        *(invalid(method, path, "/body") for method, path in LEFT_OUT),
        invalid("GET", f"{ENTRIES}?after=0&limit=10001", "/query/limit", **lines),
        Case("POST", BATCH, (*MALFORMED, "/body")),
        Case("POST", BATCH, (*INVALID, "/body"), "", NDJSON),
        *(
            Case("POST", ENTRIES, (*INVALID, f"/header/{name}"), ENTRY, headers)
            for name, headers in (
                ("Idempotency-Producer", {"Idempotency-Producer": "p"}),
                ("Idempotency-Key", {"Idempotency-Key": ""}),
                ("Idempotency-Key", {"Idempotency-Key": "k" * 257}),
                ("Idempotency-Producer", {**KEY, "Idempotency-Producer": "p" * 257}),
            )
        ),
        Case("POST", ENTRIES, (*INVALID, "/body/id"), {**ENTRY, "id": "9-0"}, KEY),
        Case("POST", BATCH, (*INVALID, "/body/0/id"), [{**ENTRY, "id": "9-0"}], KEY),
        Case("GET", f"{BILLING}/events?ack=on_reconnect", REQUIRED, None, EVENTS),
        *(
            Case(
                "GET", f"{ENTRIES}?{query}", (*INVALID, f"/query/{name}"), None, {"Accept": accept}
            )
            for query, accept, name in SELECTIONS
        ),
        Case("GET", ENTRIES, (406, "not_acceptable", "/header/Accept"), None, {"Accept": "a/b"}),
    )


async def test_a_schedule_that_makes_no_sense_is_refused(shared: Live) -> None:
    whole = {"stream": "jobs", **ENTRY, "cron": "0 2 * * *"}
    await shared.ask("PUT /v1/schedules/other", whole)
    await check_refused(
        shared,
        *(invalid("PUT", "/v1/schedules/a", f"/body{at}", whole | part) for part, at in SCHEDULES),
        *(invalid("PATCH", "/v1/schedules/other", f"/body{at}", part) for part, at in SCHEDULES),
        invalid("PUT", "/v1/schedules/%07", "/path/schedule", whole),
    )


OTHER = "/v1/streams/other"
OF_GROUPS: list[tuple[str, str, Any]] = [
    *((method, "", None) for method in ("GET", "DELETE")),
    ("PATCH", "", {"start": "0"}),
    *(("GET", path, None) for path in ("/consumers", "/pending", "/pending/summary", "/events")),
    *((method, "/consumers/c", None) for method in ("PUT", "DELETE")),
    ("POST", "/read?consumer=c", {"wait_ms": 60_000}),
    *(("POST", f"/{verb}", {"ids": ["1-0"]}) for verb in ("ack", "nack", "extend?consumer=c")),
    ("POST", "/dead-letters/redrive", None),
    ("POST", "/claim?consumer=c", {"ids": ["1-0"], "min_idle_ms": 0}),
    ("POST", "/autoclaim?consumer=c", {"min_idle_ms": 0}),
    ("PUT", "/push", HOOK),
    *((method, "/push", None) for method in ("GET", "DELETE")),
    ("GET", "/push/attempts", None),
    ("POST", "/push/replay", {"start": "-"}),
    ("DELETE", "/push/replay", None),
    *(("POST", f"/push/{verb}", None) for verb in ("pause", "resume", "retry", "rotate", "test")),
]
MISSING: list[tuple[str, str, Any, str]] = [
    *(
        ("GET", f"{OTHER}{path}", None, "stream_not_found")
        for path in (
            *("", "/entries", "/entries?after=0", "/entries/1-0", "/groups", "/events", "/splits"),
        )
    ),
    ("GET", f"{OTHER}/entries?after=$&wait_ms=60000", None, "stream_not_found"),
    ("DELETE", f"{OTHER}/entries/1-0", None, "stream_not_found"),
    ("POST", f"{OTHER}/entries/delete", {"ids": ["1-0"]}, "stream_not_found"),
    ("POST", "/v1/read", {"streams": [{"stream": "other"}], "wait_ms": 60_000}, "stream_not_found"),
    *(
        (method, f"{stream}/groups/other{path}", body, code)
        for stream, code in ((OTHER, "stream_not_found"), (ORDERS, "group_not_found"))
        for method, path, body in OF_GROUPS
    ),
    *((method, f"{ENTRIES}/9-9", None, "entry_not_found") for method in ("GET", "DELETE")),
]


async def test_what_is_not_there_is_not_found_at_once(shared: Live) -> None:
    ghost = Case("DELETE", f"{BILLING}/consumers/ghost", (404, "not_found", "/path/consumer"))
    cases = [Case(method, path, (404, code, ""), body) for method, path, body, code in MISSING]
    arrow = {"Accept": ARROW}
    cases.append(Case("GET", f"{OTHER}/entries", (404, "stream_not_found", ""), None, arrow))
    schedule, gone = "/v1/schedules/none", (404, "not_found", "")
    cases += [Case(method, schedule, gone) for method in ("GET", "DELETE")]
    cases += [
        Case("PATCH", schedule, gone, {"paused": True}),
        Case("POST", f"{schedule}/run", gone),
    ]
    await check_refused(shared, ghost, *cases)
    assert (await shared.stream("orders"))["groups"] == 1


NO_JSON: list[str | bytes] = [
    *(" ", "{", "}", "nul", "{'fields':{}}", '{"fields":{"a":"b"},}', '{"fields":{"a":"b"}} x'),
    *('{"fields":{"a":"\\ud800"}}', '{"fields":{"\\udc00":"b"}}', '{"\\ud800":1}'),
    *(b'{"fields":{"a":"\xff"}}', b"\x00", b"\xef\xbb\xbf{}", json.dumps(ENTRY).encode("utf-16")),
    *("[" * 100_000, '{"a":' * 100_000, '{"fields":{"a":"\n"}}', '{"id":' + "9" * 5000 + "}"),
    *("fields=a", "<entry/>", "\u00a0{}"),
    *(f'{{"wait_ms": {number}}}' for number in ("NaN", "Infinity", "-Infinity")),
]


@pytest.mark.parametrize("path", [ENTRIES, BATCH, READ, ORDERS])
async def test_what_is_no_json_is_malformed(shared: Live, path: str) -> None:
    method, problem = "PATCH" if path == ORDERS else "POST", (*MALFORMED, "/body")
    await check_refused(shared, *(Case(method, path, problem, body) for body in NO_JSON))


async def test_a_body_of_another_media_type_is_refused(shared: Live) -> None:
    problem = (415, "unsupported_media_type", "/header/Content-Type")
    types = ["", "text/plain", "application/x-www-form-urlencoded", "json", "application/jsonp"]
    places = [("POST", ENTRIES), ("POST", BATCH), ("POST", ACK), ("PUT", BILLING)]
    await check_refused(
        shared,
        *(
            Case(method, path, problem, ENTRY, {"Content-Type": media_type})
            for media_type in types
            for method, path in [*places, ("PATCH", BILLING)]
        ),
        *(Case("POST", path, problem, ENTRY, NDJSON) for path in (ENTRIES, ACK, READ)),
    )
    for media_type in ("application/json; charset=utf-8", "Application/JSON"):
        headers = {"Content-Type": media_type}
        answer = await shared.http.post(ENTRIES, content=json.dumps(ENTRY), headers=headers)
        assert answer.status_code == 201


WRONG_LINES = [
    *(("{", *MALFORMED, ""), ("", *MALFORMED, ""), ('{"fields":{"a":"\\ud800"}}', *MALFORMED, "")),
    *(("[]", *INVALID, ""), ('{"fields":{}}', *INVALID, "")),
    ('{"fields":{"a":1}}', *INVALID, "/fields/a"),
    ('{"fields":{"a":"1"},"x":1}', *INVALID, "/x"),
    ('{"id":5,"fields":{"a":"1"}}', *INVALID, "/id"),
    ('{"id":"1-0","fields":{"a":"1"}}', 409, "id_not_greater", "/id"),
]


@pytest.mark.parametrize("number", [1, 500])
async def test_one_wrong_line_spoils_the_batch_and_is_named(shared: Live, number: int) -> None:
    cases = []
    for line, status, code, pointer in WRONG_LINES:
        lines = [json.dumps(ENTRY)] * 1000
        lines[number - 1] = line
        problem = status, code, f"/body/{number - 1}{pointer}"
        cases.append(Case("POST", BATCH, problem, "\n".join(lines), NDJSON))
    await check_refused(shared, *cases)
    for case in cases[:-1]:
        answer = await shared.http.post(BATCH, content=case.content, headers=NDJSON)
        problem_text = problem_in(answer)["detail"]
        assert problem_text.startswith(f"{case.problem[2]}: line {number}: ")
        assert "at line" not in problem_text


async def test_of_many_mistakes_a_hundred_are_told(shared: Live) -> None:
    entry = {"fields": {f"f{index}": 1 for index in range(1000)}}

    problem = problem_in(await shared.http.post(ENTRIES, json=entry))

    assert len(problem["errors"]) == 100
    assert "and 999 more" in problem["detail"]


@pytest.mark.parametrize(
    ("path", "body", "pointer"),
    [
        (BATCH, [{"fields": {"a": 1}}] * 5000, "/body/0/fields/a"),
        (ACK, {"ids": [1] * 50_000}, "/body/ids/0"),
        (ACK, {"ids": [1] * 200_000}, "/body/ids"),
        (BATCH, [{}] * 200_000, "/body/0"),
        (ACK, {f"x{n}": 1 for n in range(50_000)}, "/body"),
        (BATCH, [{"fields": {f"x{n}": "1" for n in range(2000)}}], "/body/0/fields"),
    ],
)
async def test_the_first_of_a_million_mistakes_is_enough(
    shared: Live, path: str, body: Any, pointer: str
) -> None:
    answer = await shared.http.post(path, json=body)

    assert answer.status_code == 422
    assert [error["pointer"] for error in problem_in(answer)["errors"]] == [pointer]


@pytest.fixture(scope="module")
def small_settings() -> Settings:
    """Settings of a gateway that takes little."""
    return Settings(
        body_bytes_max=2000,
        batch_entries_max=3,
        read_entries_max=100,
        ids_max=100,
        wait_ms_max=1000,
        waiters_max=2,
    )


async def chunks(text: str, size: int = 100) -> AsyncIterator[bytes]:
    for start in range(0, len(text), size):
        yield text[start : start + size].encode()


async def test_bounds_are_those_of_the_settings(small_settings: Settings) -> None:
    too_large = (413, "too_large", "/body")
    text, at_the_bound = json.dumps({"fields": {"a": "b" * 2000}}), json.dumps(ENTRY).ljust(2000)
    entries, ids = [ENTRY] * 4, {"ids": ["1-0"] * 101}
    async with running(small_settings) as live:
        await check_refused(
            live,
            *(Case("POST", path, too_large, text) for path in (ENTRIES, BATCH, READ)),
            *(Case(method, ORDERS, too_large, text) for method in ("PUT", "PATCH", "DELETE")),
            Case("GET", ENTRIES, too_large, text),
            invalid("POST", BATCH, "/body", entries),
            Case("POST", BATCH, (*INVALID, "/body"), "\n".join(map(json.dumps, entries)), NDJSON),
            invalid("GET", f"{ENTRIES}?limit=101", "/query/limit"),
            invalid("GET", f"{ORDERS}?full=true&count=101", "/query/count"),
            invalid("GET", "/v1/streams?limit=101", "/query/limit"),
            invalid("GET", f"{BILLING}/pending?limit=101", "/query/limit"),
            invalid("GET", f"{ENTRIES}?after=0&wait_ms=1001", "/query/wait_ms"),
            invalid("POST", READ, "/body/limit", {"limit": 101}),
            invalid("POST", READ, "/body/wait_ms", {"wait_ms": 1001}),
            invalid("POST", READ, "/body/ack", {"ack": ids["ids"]}),
            *(invalid("POST", path, "/body/ids", ids) for path in (ACK, NACK, EXTEND)),
            invalid("POST", CLAIM, "/body/ids", {**ids, "min_idle_ms": 0}),
            invalid("POST", AUTOCLAIM, "/body/limit", {"limit": 101, "min_idle_ms": 0}),
            invalid("POST", f"{ENTRIES}/delete", "/body/ids", ids),
        )
        refused = await live.http.post(ENTRIES, content=chunks(text), headers=JSON)
        assert refusal_of(refused) == too_large
        assert "2000 bytes" in problem_in(refused)["detail"]
        for content in (at_the_bound, chunks(at_the_bound)):
            assert (await live.http.post(ENTRIES, content=content, headers=JSON)).status_code == 201


async def test_one_waiter_too_many_is_told_when_to_come_again(small_settings: Settings) -> None:
    poll = f"{ENTRIES}?after=$&wait_ms=1000"
    async with running(small_settings.model_copy(update={"wait_ms_max": 60_000})) as live:
        poll = f"{ENTRIES}?after=$&wait_ms=60000"
        await live.create_group("orders", "billing")
        waiting = [asyncio.create_task(live.http.get(poll)) for _ in range(2)]
        await live.until_waiting(2)

        cursor = {"stream": "orders", "after": "$"}
        for answer in (
            await live.http.get(poll),
            await live.http.post(READ, json={"wait_ms": 1000}),
            await live.http.post("/v1/read", json={"streams": [cursor], "wait_ms": 1}),
        ):
            assert refusal_of(answer) == (429, "too_many_waiters", "")
            assert answer.json()["retryable"]
            assert int(answer.headers["Retry-After"]) * 1000 >= answer.json()["retry_after_ms"] > 0
        assert (await live.http.get(f"{ENTRIES}?after=$")).status_code == 200  # no wait
        await live.append("orders", "1")
        assert [len((await task).json()["entries"]) for task in waiting] == [1, 1]
        assert (await live.http.get(poll.replace("$", "0"))).status_code == 200
