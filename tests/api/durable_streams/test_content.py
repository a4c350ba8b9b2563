"""Messages and bytes come back as they were; writers write once, in order, and together."""

import asyncio
import json
import re
from collections import Counter
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from headgate.app.durable_streams.content import JSON_BYTES_MAX
from headgate.app.durable_streams.producers import PRODUCER, ProducerState
from headgate.engine.limits import ATTRIBUTES_BYTES_MAX
from headgate.engine.requests.streams import AttributeChange, ChangeAttributes, GetAttributes
from tests.api.conftest import Live

pytestmark = pytest.mark.asyncio(loop_scope="session")

PLACE = "/v1/stream/chat/1"
ENTRIES = "/v1/streams/chat:1/entries"
JSON = {"Content-Type": "application/json"}
TEXT = {"Content-Type": "text/plain"}

MESSAGES: list[Any] = [
    {"role": "user", "text": "é"},
    {"n": 1.50, "nested": [{}]},
    {"json": "a text"},
    {},
    [1, 2],
    "text",
    12345678901234567890123,
    None,
    {"": ""},
    {"a": "1", "b": None},
]


async def make(live: Live, headers: dict[str, str], body: bytes = b"") -> httpx.Response:
    answer = await live.http.put(PLACE, headers=headers, content=body)
    assert answer.status_code == 201, answer.text
    return answer


async def entries(live: Live) -> list[dict[str, Any]]:
    page = (await live.http.get(ENTRIES)).json()
    return [entry["fields"] for entry in page["entries"]]


async def test_messages_are_entries_and_come_back(shared: Live) -> None:
    await make(shared, JSON)
    assert (await shared.http.post(PLACE, json=MESSAGES)).status_code == 204
    assert (await shared.http.get(PLACE)).json() == MESSAGES
    assert await entries(shared) == [
        {"role": "user", "text": "é"},
        *({"json": json} for json in ('{"n":1.5,"nested":[{}]}', '{"json":"a text"}', "{}")),
        *({"json": json} for json in ("[1,2]", '"text"', "12345678901234567890123", "null")),
        {"": ""},
        {"json": '{"a":"1","b":null}'},
    ]
    await shared.http.put("/v1/stream/numbers", headers=JSON, content=b'[ 1.500e3 , {"n": 1.0} ]')
    assert (await shared.http.get("/v1/stream/numbers")).text == '[1.500e3,{"n": 1.0}]'


async def test_bytes_come_back_as_they_were(shared: Live) -> None:
    await make(shared, {"Content-Type": "image/png"}, bytes(range(256)))
    await shared.http.post(PLACE, headers={"Content-Type": "image/png"}, content=b"\x00\xff")
    assert (await shared.http.get(PLACE)).content == bytes(range(256)) + b"\x00\xff"


async def test_entries_of_others_are_messages(shared: Live) -> None:
    await shared.append("chat:1", "1")
    answer = await shared.http.get(PLACE)
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == [{"v": "1"}]
    await shared.http.post(ENTRIES, json={"fields": {"json": "{not json"}})
    assert (await shared.http.get(PLACE)).json() == [{"v": "1"}, {"json": "{not json"}]
    assert (await shared.http.post(PLACE, json={"v": "2"})).status_code == 204
    assert (await entries(shared))[-1] == {"v": "2"}


async def test_entries_of_others_are_lines_between_bytes(shared: Live) -> None:
    await make(shared, TEXT, b"a")
    await shared.append("chat:1", "1")
    await shared.http.post(PLACE, headers=TEXT, content=b"b")
    assert (await shared.http.get(PLACE)).text == 'a{"v":"1"}\nb'


async def test_who_closes_over_rest_ends_the_reading(shared: Live) -> None:
    await make(shared, TEXT, b"a")
    await shared.http.post("/v1/streams/chat:1/close")
    answer = await shared.http.get(PLACE)
    assert (answer.text, answer.headers["stream-closed"]) == ("a", "true")
    async with shared.http.stream("GET", f"{PLACE}?offset=-1&live=sse") as events:
        text = "".join([part async for part in events.aiter_text()])
    assert text.startswith("event: data\ndata:a\n\nevent: control\n")
    assert json.loads(text.rpartition("data:")[2])["streamClosed"] is True


async def test_a_line_of_an_event_keeps_its_space(shared: Live) -> None:
    await make(shared, {**TEXT, "Stream-Closed": "true"}, b" a\n  b\n\nc")
    answer = await shared.http.get(f"{PLACE}?offset=-1&live=sse")
    lines = answer.text.partition("\n\n")[0].split("\n")[1:]
    values = [line.removeprefix("data:").removeprefix(" ") for line in lines]
    assert values == [" a", "  b", "", "c"]


async def test_a_character_of_two_appends_comes_whole(shared: Live) -> None:
    await make(shared, TEXT, b"a\xe2")
    query = {"offset": "-1", "live": "sse"}
    async with shared.http.stream("GET", PLACE, params=query) as events:
        parts = events.aiter_text()
        text = await anext(parts)
        await shared.http.post(PLACE, headers=TEXT, content=b"\x82")
        for last in (b"\xac b", b" \xe2\x82"):
            await shared.http.post(PLACE, headers=TEXT, content=last)
        await shared.http.post(PLACE, headers={"Stream-Closed": "true"})
        text += "".join([part async for part in parts])
    controls = [json.loads(each) for each in re.findall(r"event: control\ndata:(.*)\n", text)]
    data = re.findall(r"event: data\ndata:(.*)\n", text)
    assert "".join(value.removeprefix(" ") for value in data) == "a€ b \ufffd"
    assert controls[-1]["streamClosed"] is True
    for control in controls[:-1]:  # whoever comes back there loses nothing
        later = await shared.http.get(PLACE, params={"offset": control["streamNextOffset"]})
        assert later.content.startswith(b"\x82") is False


async def test_what_is_no_json_is_refused_and_nothing_appended(shared: Live) -> None:
    await make(shared, JSON)
    for body in (b"{", b"[1,]", b"nul", b'"\xff"', b"[" * 100_000, b"1 2", b'{"a" 1}'):
        answer = await shared.http.post(PLACE, headers=JSON, content=body)
        assert (answer.status_code, answer.json()["code"]) == (400, "malformed")
    for text in (json.dumps("v" * JSON_BYTES_MAX), json.dumps([1] * 10_001)):
        answer = await shared.http.post(PLACE, headers=JSON, content=text.encode())
        assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
    assert (await shared.http.get(PLACE)).json() == []


async def test_a_stream_is_never_a_page_of_the_gateway(shared: Live) -> None:
    await make(shared, {"Content-Type": "text/html"}, b"<script>alert(1)</script>")
    headers = (await shared.http.get(PLACE)).headers
    assert "sandbox" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"


async def test_what_is_no_media_type_is_refused(shared: Live) -> None:
    for text in ("text", "text/", "a b/c", "text/plain; é", "/x", "a/b/c"):
        answer = await shared.http.put(PLACE, headers={b"Content-Type": text.encode()})
        assert answer.status_code == 400
        assert answer.json()["errors"][0]["pointer"] == "/header/Content-Type"


RUN = "/v1/stream/run"


def producer(seq: int, epoch: int = 0, name: str = "p") -> dict[str, str]:
    return {"Producer-Id": name, "Producer-Epoch": str(epoch), "Producer-Seq": str(seq), **JSON}


async def append(live: Live, number: int, **headers: str) -> httpx.Response:
    return await live.http.post(RUN, headers={**JSON, **headers}, json=number)


async def numbers(live: Live) -> list[int]:
    read: list[int] = (await live.http.get(RUN)).json()
    return read


async def test_an_append_that_is_sent_ten_times_at_once_counts_once(shared: Live) -> None:
    await shared.http.put(RUN, headers=JSON)
    answers = await asyncio.gather(
        *(shared.http.post(RUN, headers=producer(0), json=7) for _ in range(10))
    )
    assert Counter(answer.status_code for answer in answers) == {200: 1, 204: 9}
    assert len({answer.headers["stream-next-offset"] for answer in answers}) == 1
    assert await numbers(shared) == [7]


async def test_producers_write_side_by_side_each_in_its_order(shared: Live) -> None:
    await shared.http.put(RUN, headers=JSON)

    async def write(name: str, base: int) -> None:
        for seq in range(10):
            answer = await shared.http.post(RUN, headers=producer(seq, name=name), json=base + seq)
            assert answer.status_code == 200, answer.text

    await asyncio.gather(*(write(f"p{each}", 100 * each) for each in range(5)))
    read = await numbers(shared)
    for base in range(0, 500, 100):
        assert [number for number in read if number // 100 * 100 == base] == [
            *range(base, base + 10)
        ]


async def test_one_order_of_all_writers_has_no_gap_and_no_repeat(shared: Live) -> None:
    await shared.http.put(RUN, headers=JSON)
    answers = await asyncio.gather(
        *(append(shared, number, **{"Stream-Seq": f"{number:02}"}) for number in range(20))
    )
    accepted = [number for number in range(20) if answers[number].status_code == 204]
    assert await numbers(shared) == accepted
    refused = next(answer for answer in answers if answer.status_code != 204)
    assert (refused.status_code, refused.json()["code"]) == (409, "out_of_sequence")


async def test_a_stream_forgets_idle_producers_when_there_is_no_room(shared: Live) -> None:
    await shared.http.put(RUN, headers=JSON)
    perform = shared.gateway.backend.perform
    padding = b"x" * (ATTRIBUTES_BYTES_MAX // 2 - 5_000)
    old, new = PRODUCER + b"old" + padding, PRODUCER + b"new" + padding
    now_ms = shared.gateway.auth.now_ms()
    values = {
        old: ProducerState(0, 5, now_ms - 90_000_000).encoded(),
        new: ProducerState(0, 5, now_ms - 80_000_000).encoded(),
    }
    await perform(ChangeAttributes(b"run", AttributeChange(values)))
    name = "n" * 200
    for number in range(40):
        headers = producer(0, name=f"{name}{number}")
        answer = await shared.http.post(RUN, headers=headers, json=number)
        assert answer.status_code == 200, (number, answer.text)
    there = await perform(GetAttributes(b"run", [old, new]))
    assert [*there] == [new]
    assert await numbers(shared) == [*range(40)]


async def test_a_stream_full_of_producers_that_still_write_says_so(shared: Live) -> None:
    await shared.http.put(RUN, headers=JSON)
    perform = shared.gateway.backend.perform
    now_ms = shared.gateway.auth.now_ms()
    names = [PRODUCER + f"{number:04}".encode() + b"x" * 100_000 for number in range(10)]
    state = ProducerState(0, 5, now_ms).encoded()
    await perform(ChangeAttributes(b"run", AttributeChange(dict.fromkeys(names, state))))
    answers = [
        await shared.http.post(RUN, headers=producer(0, name=f"{number}" * 200), json=number)
        for number in range(10)
    ] + [
        await shared.http.post(RUN, headers=producer(0, name=f"{number:03}" * 80), json=number)
        for number in range(100)
    ]
    refused = [answer for answer in answers if answer.status_code != 200]
    assert {(each.status_code, each.json()["code"]) for each in refused} == {(409, "limit_reached")}
    assert len(await numbers(shared)) == len(answers) - len(refused)
    assert (await append(shared, 1)).status_code == 204


async def test_the_closing_append_of_a_producer_may_be_repeated_and_no_other(shared: Live) -> None:
    await shared.http.put(RUN, headers=JSON)
    last = {**producer(0), "Stream-Closed": "true"}
    assert (await shared.http.post(RUN, headers=last, json=1)).status_code == 200
    again = await shared.http.post(RUN, headers=last, json=2)
    assert (again.status_code, again.headers["stream-closed"]) == (204, "true")
    for headers in (producer(1), producer(0, name="other"), JSON):
        refused = await shared.http.post(RUN, headers=headers, json=3)
        assert (refused.status_code, refused.json()["code"]) == (409, "stream_closed")
        assert refused.headers["stream-next-offset"] == again.headers["stream-next-offset"]
    assert (await shared.http.post(RUN, headers=JSON)).status_code == 400
    assert await numbers(shared) == [1]


VALUES = [
    *("", "0", "-1", "now", "true", "TRUE", "1_1", "0_0", "99999999999999999999_0", "é", "a,b"),
    *("application/json", "text/plain", "TEXT/PLAIN; charset=utf-8", "x/y", "long-poll", "sse"),
    *("2030-01-31T12:00:00Z", "9007199254740992", "00", "+1", "1e3", "/v1/stream/a", "\x7f", '"'),
]
HEADERS = [
    *("Content-Type", "Stream-TTL", "Stream-Expires-At", "Stream-Closed", "Stream-Seq"),
    *("Stream-Forked-From", "Stream-Fork-Offset", "Stream-Fork-Sub-Offset", "If-None-Match"),
    *("Producer-Id", "Producer-Epoch", "Producer-Seq", "Authorization"),
]
BODIES = [b"", b"[]", b"[1]", b'{"a":"b"}', b"\xff", b"[", b'{"type":"webhook","pattern":"*"}']
PATHS = ["a", "b", "a/b", "a:b", "%2F", "a%00", "__ds", "__ds/subscriptions/s", "__ds/jwks.json"]
PATHS += [f"__ds/subscriptions/s/{last}" for last in ("claim", "ack", "callback", "release")]

values = st.one_of(st.sampled_from(VALUES), st.text(max_size=30))
requests = st.tuples(
    st.sampled_from(["GET", "PUT", "POST", "DELETE", "HEAD", "PATCH"]),
    st.sampled_from(PATHS),
    st.dictionaries(st.sampled_from(["offset", "cursor", "x"]), values, max_size=3),
    st.dictionaries(st.sampled_from(HEADERS), values, max_size=5),
    st.one_of(st.sampled_from(BODIES), st.binary(max_size=100)),
)


@hypothesis_settings(
    max_examples=100,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(requests, min_size=1, max_size=12))
async def test_nothing_makes_it_fail(shared: Live, asked: list[tuple]) -> None:  # type: ignore[type-arg]
    for method, path, query, headers, body in asked:
        sent = {
            name.encode(): "".join(char for char in text if char >= " ").strip().encode()
            for name, text in headers.items()
        }
        place = f"/v1/stream/{path}"
        answer = await shared.http.request(method, place, params=query, headers=sent, content=body)
        assert answer.status_code < 500, (method, path, query, sent, body, answer.text)
