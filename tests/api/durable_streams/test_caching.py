"""Answers say for whom they may be kept, and are known again by their tags."""

import asyncio
from pathlib import Path

from headgate.app.auth.grants import Grant, Verb
from tests.api.auth.secured import secured
from tests.api.conftest import Live

PLACE = "/v1/stream/pages"
TEXT = {"Content-Type": "text/plain"}
LARGE = b"x" * 700_000


async def test_a_tag_is_of_what_was_sent(live: Live) -> None:
    await live.http.put(PLACE, headers=TEXT, content=LARGE)
    await live.http.post(PLACE, headers=TEXT, content=LARGE)
    first = await live.http.get(PLACE)
    assert "stream-up-to-date" not in first.headers
    tag = {"If-None-Match": first.headers["etag"]}
    assert (await live.http.get(PLACE, headers=tag)).status_code == 304
    offset = first.headers["stream-next-offset"]
    last = await live.http.get(PLACE, params={"offset": offset})
    last_tag = {"If-None-Match": f'W/"other", {last.headers["etag"]}'}
    params = {"offset": offset}
    same = await live.http.get(PLACE, params=params, headers=last_tag)
    assert (same.status_code, same.content) == (304, b"")
    assert (await live.http.get(PLACE, headers=last_tag)).status_code == 200

    await live.http.post(PLACE, headers=TEXT, content=b"more")
    assert (await live.http.get(PLACE, headers=tag)).status_code == 304  # nothing comes between
    longer = await live.http.get(PLACE, params=params, headers=last_tag)
    assert longer.status_code == 200
    now = {"If-None-Match": longer.headers["etag"]}
    assert (await live.http.get(PLACE, params=params, headers=now)).status_code == 304
    await live.http.post(PLACE, headers={"Stream-Closed": "true"})
    closed = await live.http.get(PLACE, params=params, headers=now)
    assert (closed.status_code, closed.headers["stream-closed"]) == (200, "true")


async def test_a_tag_ends_with_what_is_removed(live: Live) -> None:
    await live.http.put(PLACE, headers=TEXT, content=b"a")
    tag = {"If-None-Match": (await live.http.get(PLACE)).headers["etag"]}
    [entry] = (await live.http.get("/v1/streams/pages/entries")).json()["entries"]
    await live.http.delete(f"/v1/streams/pages/entries/{entry['id']}")
    assert (await live.http.get(PLACE, headers=tag)).content == b""
    await live.http.delete(PLACE)
    await live.http.put(PLACE, headers=TEXT)
    assert (await live.http.get(PLACE, headers=tag)).status_code == 200


async def test_a_tag_that_makes_no_sense_is_of_nothing(live: Live) -> None:
    await live.http.put(PLACE, headers=TEXT, content=b"a")
    for tag in ('"', "*", '"1:2"', '"1.2:0-0:x:m"', '"' + ":" * 500 + '"'):
        answer = await live.http.get(PLACE, headers={"If-None-Match": tag})
        assert (answer.status_code, answer.content) == (200, b"a")


async def test_what_is_not_kept_any_more_is_gone(live: Live) -> None:
    await live.http.put(PLACE, headers=TEXT, content=b"a")
    first = (await live.http.get(PLACE)).headers["stream-next-offset"]
    for text in (b"b", b"c"):
        await live.http.post(PLACE, headers=TEXT, content=text)
    await live.http.post("/v1/streams/pages/trim", json={"max_length": 1})
    answer = await live.http.get(PLACE, params={"offset": first})
    assert (answer.status_code, answer.json()["code"]) == (410, "gone")
    assert (await live.http.get(PLACE, params={"offset": first, "live": "sse"})).status_code == 410
    assert (await live.http.get(PLACE)).content == b"c"


async def test_only_without_keys_an_answer_is_for_all(live: Live, tmp_path: Path) -> None:
    await live.http.put(PLACE, headers=TEXT, content=b"a")
    assert (await live.http.get(PLACE)).headers["cache-control"].startswith("public, ")
    async with secured(tmp_path, allow_anonymous=True) as gateway:
        everybody = Grant(streams=["*"], do=[Verb.APPEND, Verb.READ], create=True)
        async with gateway.client(await gateway.key(everybody)) as http:
            await http.put(PLACE, headers=TEXT, content=b"a")
            answer = await http.get(PLACE)
        async with gateway.client(None) as http:
            anonymous = await http.get(PLACE)
    for each in (answer, anonymous):
        assert each.headers["cache-control"].startswith("private, ")
        assert each.headers["vary"] == "Authorization, Cookie"


async def test_what_comes_behind_a_deleted_end_is_news(live: Live) -> None:
    await live.http.put(PLACE, headers=TEXT, content=b"a")
    first = (await live.http.get(PLACE)).headers["stream-next-offset"]
    await live.http.post(PLACE, headers=TEXT, content=b"b")
    last = (await live.http.get("/v1/streams/pages/entries")).json()["entries"][-1]
    await live.http.delete(f"/v1/streams/pages/entries/{last['id']}")
    params = {"offset": first}
    empty = await live.http.get(PLACE, params=params)
    assert (empty.content, empty.headers["stream-up-to-date"]) == (b"", "true")
    tag = {"If-None-Match": empty.headers["etag"]}
    assert (await live.http.get(PLACE, params=params, headers=tag)).status_code == 304
    async with live.http.stream("GET", PLACE, params={"offset": "-1", "live": "sse"}) as events:
        parts = events.aiter_text()
        text = ""
        while '"upToDate":true' not in text:
            text += await anext(parts)
    await live.http.post(PLACE, headers=TEXT, content=b"c")
    assert (await live.http.get(PLACE, params=params, headers=tag)).content == b"c"


async def test_what_is_empty_or_from_now_on_is_kept_by_nobody(live: Live) -> None:
    await live.http.put(PLACE, headers=TEXT)
    assert (await live.http.get(PLACE)).headers["cache-control"] == "no-cache"
    now = await live.http.get(PLACE, params={"offset": "now"})
    assert now.headers["cache-control"] == "no-store"
    asked = live.http.get(PLACE, params={"offset": "now", "live": "long-poll"})
    waiting = asyncio.create_task(asked)
    await live.until_waiting(1)
    await live.http.post(PLACE, headers=TEXT, content=b"a")
    answer = await waiting
    assert (answer.content, answer.headers["cache-control"]) == (b"a", "no-store")
