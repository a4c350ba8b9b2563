"""Events: appended in each mode, once, all or none; and entries that are read as events."""

import asyncio
import json
import time
from typing import Any

import pytest

from headgate.app.cloud_events.formats import EVENT_BYTES_MAX
from tests.api.cloud_events.sent import (
    AS_BATCH,
    AS_EVENT,
    BATCH,
    ENTRIES,
    ORDERS,
    STRUCTURED,
    binary,
    event,
    events_in,
    fields_in,
    send,
)
from tests.api.conftest import Live, refusal_of

pytestmark = pytest.mark.asyncio(loop_scope="session")

FIELDS = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/shop", "ce-type": "sold"}


@pytest.mark.parametrize(
    "media_type",
    [STRUCTURED, f"{STRUCTURED}; charset=utf-8", f'{STRUCTURED.upper()};charset="UTF-8"'],
)
async def test_a_structured_event_is_an_entry(shared: Live, media_type: str) -> None:
    answer = await send(shared, event(data={"n": 1}), media_type)

    assert answer.status_code == 201, answer.text
    entry_id = answer.json()["id"]
    assert answer.headers["Location"] == f"{ENTRIES}/{entry_id}"
    entry = await shared.http.get(answer.headers["Location"])
    assert entry.json() == {"id": entry_id, "fields": {**FIELDS, "data": '{"n": 1}'}}


async def test_a_binary_event_is_an_entry_whatever_its_data_are(shared: Live) -> None:
    answer = await send(shared, b"\x00\xff", "image/png", **binary(subject="Euro%20%E2%82%AC"))

    assert answer.status_code == 201, answer.text
    entry = (await shared.http.get(answer.headers["Location"])).json()
    assert entry["base64"] == ["data"]
    assert entry["fields"] == {
        **FIELDS,
        "ce-subject": "Euro €",
        "content-type": "image/png",
        "data": "AP8=",
    }


async def test_a_batch_is_as_many_entries(shared: Live) -> None:
    answer = await send(shared, [event("1"), event("2"), event("3")], BATCH)

    assert answer.status_code == 201, answer.text
    added = answer.json()
    assert added["id"] == added["ids"][-1]
    assert "Location" not in answer.headers
    assert [members["id"] for members in await events_in(shared)] == ["1", "2", "3"]


async def test_a_long_batch_is_read_in_pieces(shared: Live) -> None:
    deep: Any = {"},{": ["[", {"a": [[[[{"b": "x" * 500}, {}]]]]}]}
    events = [event(str(number), data=[deep, deep]) for number in range(400)]
    answer = await send(shared, events, BATCH)

    assert answer.status_code == 201, answer.text
    read = await events_in(shared, limit=1000)
    assert [members["id"] for members in read] == [str(number) for number in range(400)]
    assert all(members["data"] == [deep, deep] for members in read)


MALFORMED, TOO_LARGE = (400, "malformed"), (413, "too_large")
INVALID = (422, "invalid_request")
OTHER_TYPE = (415, "unsupported_media_type", "/header/Content-Type")


async def test_a_batch_with_a_fault_appends_nothing(shared: Live) -> None:
    wrong: list[tuple[Any, tuple[int, str], str]] = [
        *((content, MALFORMED, "") for content in (b"[", b"", b"{}")),
        (b"[]", INVALID, ""),
        (b"[1]", INVALID, "/0"),
        ([event("1"), event("", data=1)], INVALID, "/1/id"),
        ([event("1"), {**event("2"), "a b": 1}], INVALID, "/1/a b"),
        ([event(str(number)) for number in range(20_000)], INVALID, ""),
        ([event("1", data="x" * 2 * EVENT_BYTES_MAX)], TOO_LARGE, "/0"),
    ]
    for content, problem, pointer in wrong:
        assert refusal_of(await send(shared, content, BATCH)) == (*problem, f"/body{pointer}")
    assert await fields_in(shared) == []


async def test_what_is_no_event_is_refused(shared: Live) -> None:
    structured: list[tuple[Any, tuple[int, str], str]] = [
        (b"{", MALFORMED, ""),
        (event(source=None), INVALID, "/source"),
        (event(data="x" * EVENT_BYTES_MAX), TOO_LARGE, ""),
    ]
    for content, problem, pointer in structured:
        assert refusal_of(await send(shared, content)) == (*problem, f"/body{pointer}")
    for headers, name in ((binary("%C0%A0"), "ce-id"), (binary(time="now"), "ce-time")):
        answer = await send(shared, b"", "a/b", **headers)
        assert refusal_of(answer) == (*INVALID, f"/header/{name}")
    twice = await shared.http.post(ENTRIES, headers=[*binary().items(), ("ce-id", "2")])
    assert refusal_of(twice) == (*INVALID, "/header/ce-id")
    for media_type in ("application/cloudevents+xml", f"{STRUCTURED}; charset=latin-1"):
        assert refusal_of(await send(shared, event(), media_type)) == OTHER_TYPE
    for query, name in (
        ("delay_ms=-1", "delay_ms"),
        ("delay_ms=1&deliver_at_ms=1", "deliver_at_ms"),
        ("delay_ms=9000&ttl_ms=1", "ttl_ms"),
        ("fields=1", "fields"),
    ):
        answer = await send(shared, event(), url=f"{ENTRIES}?{query}")
        assert refusal_of(answer) == (*INVALID, f"/query/{name}")
    plain = await shared.http.post(f"{ENTRIES}?delay_ms=1", json={"fields": {"sku": "42"}})
    assert refusal_of(plain) == (*INVALID, "/query/delay_ms")
    assert await fields_in(shared) == []


@pytest.mark.parametrize("batch", [False, True])
async def test_an_event_that_is_sent_again_appends_nothing(shared: Live, batch: bool) -> None:
    content, media_type = ([event("1"), event("2")], BATCH) if batch else (event(), STRUCTURED)
    first = await send(shared, content, media_type)
    second = await send(shared, content, media_type)

    assert (first.status_code, second.status_code) == (201, 200)
    assert second.headers["Idempotent-Replayed"] == "true"
    assert second.json() == first.json()
    assert len(await fields_in(shared)) == (2 if batch else 1)


async def test_an_event_has_its_source_and_id_alone(shared: Live) -> None:
    await send(shared, event(data=1))

    assert (await send(shared, event(source="/other", data=2))).status_code == 201
    assert (await send(shared, event("2", data=2))).status_code == 201
    mismatch = (422, "idempotency_mismatch", "/body/id")
    assert refusal_of(await send(shared, event(data=2))) == mismatch
    refused = await send(shared, b"2", "application/json", **binary())
    assert refusal_of(refused) == (422, "idempotency_mismatch", "/header/ce-id")
    assert len(await fields_in(shared)) == 3
    for source in ("/" + "s" * 5000, "/" + "s" * 4999):
        for event_id in ("i" * 5000, "i" * 4999):
            assert (await send(shared, event(event_id, source=source))).status_code == 201


async def test_a_key_of_the_request_is_used_instead(shared: Live) -> None:
    key = {"Idempotency-Key": "k"}
    first = await send(shared, event("1"), **key)
    second = await send(shared, event("1"), **key)
    third = await send(shared, event("1"), **{"Idempotency-Key": "other"})
    refused = await send(shared, event("2"), **key)

    assert [answer.status_code for answer in (first, second, third)] == [201, 200, 201]
    assert refusal_of(refused) == (422, "idempotency_mismatch", "")


async def test_times_and_whether_the_stream_is_created_are_in_the_query(shared: Live) -> None:
    missing = await send(shared, event(), url=f"{ENTRIES}?create_stream=false")
    assert refusal_of(missing) == (404, "stream_not_found", "")
    begin_ms = time.time_ns() // 1_000_000
    answer = await send(shared, event(), url=f"{ENTRIES}?delay_ms=60000&ttl_ms=120000")

    entry = (await shared.http.get(answer.headers["Location"])).json()
    assert entry["deliver_at_ms"] >= begin_ms + 60_000
    assert entry["expires_at_ms"] >= begin_ms + 120_000


async def test_a_writer_may_expect_a_last_id(shared: Live) -> None:
    first = (await send(shared, event("1"))).json()["id"]

    assert (await send(shared, event("2"), **{"If-Match": f'"{first}"'})).status_code == 201
    refused = await send(shared, event("3"), **{"If-Match": f'"{first}"'})
    assert refusal_of(refused) == (412, "last_id_mismatch", "")


async def test_data_beyond_the_bound_of_json_come_in_the_binary_mode(shared: Live) -> None:
    data = b"\xff" * 3 * EVENT_BYTES_MAX
    answer = await send(shared, data, "image/png", **binary())
    assert answer.status_code == 201, answer.text
    assert (await send(shared, data, "image/png", **binary())).status_code == 200
    read = await shared.http.get(answer.headers["Location"], headers=AS_EVENT)
    assert len(read.json()["data_base64"]) == 4 * EVENT_BYTES_MAX


async def test_an_event_that_was_read_may_be_appended_elsewhere(shared: Live) -> None:
    await send(shared, event(comment="ä", data=[1]))
    [members] = await events_in(shared)
    answer = await send(shared, members, url="/v1/streams/copies/entries")

    assert answer.status_code == 201
    copy = (await shared.http.get(answer.headers["Location"], headers=AS_EVENT)).json()
    assert copy == {**members, "headgateid": answer.json()["id"]}


async def test_an_append_with_headers_of_its_own_stays_an_append(shared: Live) -> None:
    answer = await shared.http.post(
        ENTRIES,
        content=json.dumps({"fields": {"sku": "42"}}),
        headers={"Content-Type": "application/json", "ce-id": "1"},
    )

    assert answer.status_code == 201
    assert await fields_in(shared) == [{"sku": "42"}]


GROUP = f"{ORDERS}/groups/billing"


async def test_a_range_is_a_batch_with_its_cursor_in_headers(shared: Live) -> None:
    [first, second, third] = await shared.append("orders", "a", "b", "c")
    page = await shared.http.get(f"{ENTRIES}?limit=2", headers=AS_BATCH)

    assert [members["data"] for members in page.json()] == [{"v": "a"}, {"v": "b"}]
    assert page.headers["Headgate-Next-After"] == second
    assert page.headers["Headgate-Last-Id"] == third
    [last] = await events_in(shared, start=f"({second}")
    assert (last["headgateid"], last["type"]) == (third, "headgate.entry")
    down = await shared.http.get(f"{ENTRIES}?limit=2&order=desc", headers=AS_BATCH)
    assert [members["headgateid"] for members in down.json()] == [third, second]
    assert down.headers["Headgate-Next-Before"] == second
    assert first not in down.text


async def test_a_read_after_a_cursor_is_a_batch_and_may_wait(shared: Live) -> None:
    await send(shared, event("1"))
    url = f"{ENTRIES}?after=$&wait_ms=30000"
    waiting = asyncio.create_task(shared.http.get(url, headers=AS_BATCH))
    await shared.until_waiting(1)
    appended = (await send(shared, event("2"))).json()["id"]
    answer = await waiting

    assert answer.json() == [event("2", headgateid=appended)]
    assert answer.headers["Headgate-Next-After"] == appended


async def test_a_reader_is_told_of_gaps_and_of_the_end(shared: Live) -> None:
    [first, *_] = await shared.append("orders", "a", "b", "c")
    await shared.http.post(f"{ORDERS}/trim", json={"max_length": 1, "approximate": False})
    await shared.http.post(f"{ORDERS}/close")
    answer = await shared.http.get(f"{ENTRIES}?after={first}", headers=AS_BATCH)

    assert len(answer.json()) == 1
    assert int(answer.headers["Headgate-Closed-At-Ms"]) > 0
    assert answer.headers["Headgate-Gap-To"] > first


async def test_events_have_all_their_fields(shared: Live) -> None:
    await send(shared, event())
    answer = await shared.http.get(f"{ENTRIES}?columns=data", headers=AS_BATCH)

    assert refusal_of(answer) == (422, "invalid_request", "/query/columns")
    other = await shared.http.get(ENTRIES, headers={"Accept": "application/cloudevents+avro"})
    assert refusal_of(other) == (406, "not_acceptable", "/header/Accept")


async def test_a_group_acknowledges_events_by_the_id_of_their_entry(shared: Live) -> None:
    appended = (await send(shared, event("1", data=1))).json()["id"]
    await shared.create_group("orders", "billing")
    url = f"{GROUP}/read?consumer=me"
    first = await shared.http.post(url, json={}, headers=AS_BATCH)

    assert first.headers["Content-Type"] == BATCH
    assert first.headers["Headgate-State"] == "caught_up"
    assert first.headers["Headgate-Pending"] == "1"
    assert first.headers["Headgate-Lag"] == "0"
    assert first.json() == [event("1", data=1, headgateid=appended, headgatedeliveries=1)]
    again = await shared.http.post(url, json={"from": "0"}, headers=AS_BATCH)
    assert again.json()[0]["headgatedeliveries"] == 2
    ids = [members["headgateid"] for members in again.json()]
    assert await shared.outcomes("ack", "orders", "billing", ids, "me") == ["acked"]


async def test_an_entry_that_is_gone_is_an_event_that_may_be_acknowledged(shared: Live) -> None:
    [appended] = await shared.append("orders", "a")
    await shared.create_group("orders", "billing")
    await shared.read_group("orders", "billing", "me")
    await shared.http.delete(f"{ENTRIES}/{appended}")
    url = f"{GROUP}/read?consumer=me"
    [members] = (await shared.http.post(url, json={"from": "0"}, headers=AS_BATCH)).json()

    assert (members["type"], members["headgateid"]) == ("headgate.entry.deleted", appended)
    assert "data" not in members
    assert await shared.outcomes("ack", "orders", "billing", [appended], "me") == ["acked"]


async def test_data_that_are_no_json_are_read_all_the_same(shared: Live) -> None:
    await send(shared, b"{", "application/json", **binary("1"))
    await send(shared, b'"\\ud800"', "application/json", **binary("2"))

    assert [members["data_base64"] for members in await events_in(shared)] == [
        "ew==",
        "Ilx1ZDgwMCI=",
    ]
