"""Schemas of streams: set, replaced, deleted, and checked on every way in."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis.asyncio
from websockets.asyncio.client import connect

from headgate.app.settings import Settings
from tests.api.conftest import Live, refusal_of, running
from tests.api.rest.bulk_requests import commit, stage
from tests.arrow_bodies import FIELDS, HEADERS, arrow_of
from tests.conditions import eventually
from tests.servers.chosen import URL

pytestmark = [pytest.mark.skipif(URL is not None, reason="servers check no schemas")]

SCHEMA = {
    "type": "object",
    "properties": {
        "sku": {"type": "string"},
        "count": {"type": "integer"},
        "_schedule": {},
        "_due_ms": {},
        "data": False,
    },
    "required": ["count"],
    "additionalProperties": False,
}
STOCK = "/v1/streams/stock"
BAD = {"sku": "42", "count": "many"}
TEXT = '"many" is not of type "integer"'
ENTRY = {"fields": BAD}


@pytest.fixture
def settings() -> Settings:
    return Settings(redis_port=0)


@pytest.fixture
async def stock(live: Live) -> Live:
    await live.ask(f"PUT {STOCK}", {"key_field": "sku"})
    await live.ask(f"PUT {STOCK}/schema", {"schema": SCHEMA})
    return live


def fault(pointer: str, text: str = TEXT) -> Any:
    """Return the check of a problem that names the field."""

    def check(answer: httpx.Response) -> None:
        assert refusal_of(answer) == (422, "invalid_request", pointer)
        assert answer.json()["errors"][0]["detail"].endswith(text)

    return check


def reply(answer: httpx.Response) -> None:
    told = answer.json() if isinstance(answer.json(), list) else [answer.json()]
    assert {each["error"] for each in told} == {f"ERR schema: count: {TEXT}"}


def arrow_body() -> bytes:
    import pyarrow as pa  # noqa: PLC0415

    return arrow_of({"fields": pa.array([list(BAD.items())], FIELDS)})


async def staged(live: Live) -> httpx.Response:
    await stage(live, arrow_body(), (1, 0, "t", 0), "stream=stock")
    return await commit(live, 1, [(0, "t", 1)])


def malformed(answer: httpx.Response) -> None:  # as the protocol has it
    assert (answer.status_code, "data" in answer.text) == (400, True)


def names_the_stream(answer: httpx.Response) -> None:
    assert answer.status_code == 422
    assert "stream 'stock', entry 0: schema: count: " in answer.json()["detail"]


Ask = Callable[[Live], Awaitable[httpx.Response]]


def post(url: str, body: Any = ENTRY, **options: Any) -> Ask:
    return lambda live: live.http.post(url, **({"json": body} | options))


EVENT = {"specversion": "1.0", "id": "1", "source": "s", "type": "t", "data": {"a": 1}}
FACES: dict[str, tuple[Ask, Callable[[httpx.Response], None]]] = {
    "append": (post(f"{STOCK}/entries"), fault("/body/fields/count")),
    "plain append": (
        post(f"{STOCK}/entries", content=b'{"fields":{"count":"many"}}', json=None,
             headers={"content-type": "application/json"}),
        fault("/body/fields/count"),
    ),
    "batch": (
        post(f"{STOCK}/entries/batch", [{"fields": {"count": "1"}}, ENTRY]),
        fault("/body/1/fields/count"),
    ),
    "lines": (
        post(f"{STOCK}/entries/batch", json=None, content=json.dumps(ENTRY),
             headers={"content-type": "application/x-ndjson"}),
        fault("/body/0/fields/count"),
    ),
    "Arrow": (
        lambda live: live.http.post(
            f"{STOCK}/entries/batch", content=arrow_body(), headers=HEADERS
        ),
        fault("/body/0/fields/count"),
    ),
    "staged batch": (staged, names_the_stream),
    "close": (post(f"{STOCK}/close"), fault("/body/fields/count")),
    "row": (
        lambda live: live.http.put(f"{STOCK}/table/42", json={"fields": {"count": "many"}}),
        fault("/body/fields/count"),
    ),
    "commit": (
        post("/v1/commit", {"steps": [{"append": {"stream": "stock", "entries": [ENTRY]}}]}),
        fault("/body/steps/0/append/entries/0/fields/count"),
    ),
    "commit of a row": (
        post("/v1/commit", {"steps": [
            {"append": {"stream": "other", "entries": [ENTRY]}},
            {"put_row": {"stream": "stock", "key": "42", "fields": {"count": "many"}}},
        ]}),
        fault("/body/steps/1/put_row/fields/count"),
    ),
    "event": (
        post(f"{STOCK}/entries", EVENT, headers={"content-type": "application/cloudevents+json"}),
        fault("/body/fields/data", ""),
    ),
    "durable stream": (
        post("/v1/stream/stock", content=b"x", json=None, headers={"content-type": "text/plain"}),
        malformed,
    ),
    "XADD": (post("/v1/commands", ["XADD", "stock", "*", *sum(BAD.items(), ())]), reply),
    "pipeline": (
        post("/v1/commands/pipeline", [["XADD", "stock", "*", *sum(BAD.items(), ())]] * 2), reply,
    ),
    "transaction": (
        post("/v1/commands/multi-exec", [["XADD", "stock", "*", *sum(BAD.items(), ())]] * 2), reply,
    ),
}  # fmt: skip


@pytest.mark.parametrize("face", FACES)
async def test_an_entry_that_does_not_match_is_refused_on_each_way(stock: Live, face: str) -> None:
    if face == "durable stream":
        stream = {"content-type": "text/plain"}
        await stock.http.delete(STOCK)
        await stock.http.put("/v1/stream/stock", headers=stream)
        await stock.ask(f"PUT {STOCK}/schema", {"schema": SCHEMA})
    before = stock.position
    ask, check = FACES[face]
    check(await ask(stock))
    assert stock.position == before
    assert (await stock.ask(f"GET {STOCK}/entries"))["entries"] == []
    assert (await stock.http.get("/v1/streams/other")).status_code == 404


async def test_an_entry_that_does_not_match_is_refused_over_sockets(stock: Live) -> None:
    async with connect(f"{stock.ws_url}/v1/ws") as socket:
        entries = [{"fields": {"count": "1"}}, ENTRY]
        frame = {"type": "append", "rid": "1", "stream": "stock", "entries": entries}
        await socket.send(json.dumps(frame))
        while (answer := json.loads(await socket.recv()))["type"] == "welcome":
            pass
    assert answer["problem"]["errors"] == [
        {"pointer": "/body/entries/1/fields/count", "detail": TEXT}
    ]
    assert stock.redis_port is not None
    async with (
        redis.asyncio.Redis(port=stock.redis_port) as client,
        client.pipeline(transaction=True) as pipeline,
    ):
        for count in ("many", "1"):
            pipeline.xadd("stock", {"count": count})
        refused, entry_id = await pipeline.execute(raise_on_error=False)
    assert str(refused) == f"schema: count: {TEXT}"
    [entry] = (await stock.ask(f"GET {STOCK}/entries"))["entries"]
    assert entry["id"] == entry_id.decode()


async def test_a_schedule_is_refused_and_says_so(stock: Live) -> None:
    schedule = {"stream": "stock", "fields": BAD, "cron": "0 0 1 1 *"}
    await stock.ask("PUT /v1/schedules/s", schedule)
    fault("/body/drafts/0/fields/count")(await stock.http.post("/v1/schedules/s/run"))


async def test_what_matches_is_appended_and_rows_are_deleted(stock: Live) -> None:
    await stock.ask(f"PUT {STOCK}/table/42", {"fields": {"count": "5"}})
    assert (await stock.ask(f"GET {STOCK}/table/42"))["fields"] == {"sku": "42", "count": "5"}
    await stock.ask(f"DELETE {STOCK}/table/42")
    tombstone = {"fields": {"sku": "42", "deleted": "1", "count": "1"}}
    refused = await stock.http.post(f"{STOCK}/entries", json=tombstone)
    assert refusal_of(refused)[2] == "/body/fields/deleted"


async def test_a_repeat_has_its_first_answer_whatever_the_schema_is_now(live: Live) -> None:
    key = {"Idempotency-Key": "k"}
    first = await live.http.post(f"{STOCK}/entries", json=ENTRY, headers=key)
    await live.ask(f"PUT {STOCK}/schema", {"schema": SCHEMA})
    again = await live.http.post(f"{STOCK}/entries", json=ENTRY, headers=key)
    assert (again.status_code, again.json()) == (200, first.json())


async def test_a_schema_is_set_replaced_and_deleted(live: Live) -> None:
    url = f"{STOCK}/schema"
    assert refusal_of(await live.http.get(url))[:2] == (404, "stream_not_found")
    made = await live.http.put(url, json={"schema": SCHEMA})
    assert (made.status_code, made.json()) == (201, {"schema": SCHEMA})
    assert (await live.http.put(url, json={"schema": SCHEMA})).status_code == 200
    narrow = {"schema": SCHEMA | {"required": ["count", "sku"]}}
    refused = await live.http.put(url, json=narrow)
    assert refusal_of(refused) == (422, "invalid_request", "/body/schema/required")
    assert await live.ask(f"GET {url}") == {"schema": SCHEMA}
    assert (await live.http.put(f"{url}?force=true", json=narrow)).status_code == 200
    assert await live.ask(f"GET {url}") == narrow
    assert (await live.http.delete(url)).status_code == 204
    assert refusal_of(await live.http.get(url))[:2] == (404, "not_found")
    await live.ask(f"POST {STOCK}/entries", ENTRY)


async def test_a_wrong_schema_is_pointed_at(live: Live) -> None:
    wrong = SCHEMA | {"properties": {"count": {"type": "int"}}}
    refused = await live.http.put(f"{STOCK}/schema", json={"schema": wrong})
    assert refusal_of(refused)[2] == "/body/schema/properties/count/type"
    assert refusal_of(await live.http.get(STOCK))[:2] == (404, "stream_not_found")


async def test_a_schema_goes_with_its_stream_and_its_copies(stock: Live) -> None:
    commands = [["RENAME", "stock", "{a}b"], ["COPY", "{a}b", "{a}c"]]
    for words in commands:
        await stock.ask("POST /v1/commands", words)
    for name in ("{a}b", "{a}c"):
        refused = await stock.http.post(f"/v1/streams/{name}/entries", json=ENTRY)
        assert refused.status_code == 422
    await stock.ask("DELETE /v1/streams/{a}b")
    await stock.ask("POST /v1/streams/{a}b/entries", ENTRY)


async def test_a_restart_keeps_it(tmp_path: Path) -> None:
    kept = Settings(data_dir=tmp_path / "data")
    async with running(kept) as live:
        await live.ask(f"PUT {STOCK}/schema", {"schema": SCHEMA})
    async with running(kept) as live:
        fault("/body/fields/count")(await live.http.post(f"{STOCK}/entries", json=ENTRY))


async def test_a_large_batch_is_checked_while_others_are_served(live: Live) -> None:
    others = {"schema": {"additionalProperties": {"type": "string", "maxLength": 3}}}
    await live.ask(f"PUT {STOCK}/schema", others)
    fields = {f"f{number}": "abc" for number in range(100)}
    good, bad = {"fields": fields}, {"fields": fields | {"f7": "long"}}
    refused = await live.http.post(f"{STOCK}/entries/batch", json=[*[good] * 499, bad])
    assert refusal_of(refused) == (422, "invalid_request", "/body/499/fields/f7")
    appended = await live.ask(f"POST {STOCK}/entries/batch", [good] * 500)
    assert appended["count"] == 500


async def test_large_appends_at_one_moment_are_checked_one_by_one(live: Live) -> None:
    await live.ask(f"PUT {STOCK}/schema", {"schema": {"properties": {"a": {"type": "array"}}}})
    large = json.dumps(list(range(5_000)))
    bodies = [{"fields": {"a": large if number % 3 else "x"}} for number in range(12)]
    answers = await asyncio.gather(
        *(live.http.post(f"{STOCK}/entries", json=body) for body in bodies)
    )
    assert [answer.status_code for answer in answers] == [422, 201, 201] * 4
    words = [["XADD", "stock", "*", "a", body["fields"]["a"]] for body in bodies]
    for way in ("pipeline", "multi-exec"):
        replies = await live.ask(f"POST /v1/commands/{way}", words)
        assert ["error" in each for each in replies] == [True, False, False] * 4
    assert (await live.stream("stock"))["length"] == 24


async def test_dead_letters_are_not_checked(live: Live) -> None:
    ids = await live.append("orders", "a")
    policy = {"max_deliveries": 1, "dead_letter_stream": "dead"}
    await live.ask("PUT /v1/streams/orders/groups/g", {"start": "0", "policy": policy})
    await live.ask("PUT /v1/streams/dead/schema", {"schema": SCHEMA})
    await live.read_group("orders", "g", "c")
    await live.outcomes("nack", "orders", "g", ids, "c", mode="fail")

    await live.read_group("orders", "g", "c")
    await eventually(lambda: live.stream("dead"), lambda dead: dead["length"])
