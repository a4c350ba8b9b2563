"""Messages and bytes come back as they were, and are entries to everybody else."""

from __future__ import annotations

import json
import re
from typing import Any

import httpx
import pytest

from headgate.app.durable_streams.content import JSON_BYTES_MAX
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
    headers = {"Content-Type": "image/png"}
    await shared.http.post(PLACE, headers=headers, content=b"\x00\xff")
    assert (await shared.http.get(PLACE)).content == bytes(range(256)) + b"\x00\xff"


async def test_entries_of_others_are_messages(shared: Live) -> None:
    await shared.append("chat:1", "1")
    answer = await shared.http.get(PLACE)
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == [{"v": "1"}]
    wrong = {"fields": {"json": "{not json"}}
    await shared.http.post(ENTRIES, json=wrong)
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
