"""Forks: made once, whoever asks and whatever ends half-way; and what deleting leaves."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count, pairwise

import httpx
import pytest

from headgate.app.auth.access import Access
from headgate.app.durable_streams import creating
from headgate.app.durable_streams.creating import FORK as FORK_ATTRIBUTE
from headgate.engine.entry import Entry
from headgate.engine.errors import StreamNotFound
from headgate.engine.requests.streams import AttributeChange, ChangeAttributes, GetAttributes
from tests.api.conftest import Live

pytestmark = pytest.mark.asyncio(loop_scope="session")

SOURCE, FORK = "/v1/stream/source", "/v1/stream/fork"
JSON = {"Content-Type": "application/json"}
FROM = {"Stream-Forked-From": SOURCE}
COUNT = 2_500  # of messages: some pages


async def make_source(live: Live) -> None:
    await live.http.put(SOURCE, headers=JSON)
    await live.ask(f"POST {SOURCE}", [*range(COUNT)])


async def numbers(live: Live, place: str = FORK) -> list[int]:
    offset, read = "-1", list[int]()
    while True:
        answer = await live.http.get(place, params={"offset": offset})
        assert answer.status_code == 200, answer.text
        read += answer.json()
        if "stream-up-to-date" in answer.headers:
            return read
        offset = answer.headers["stream-next-offset"]


async def test_many_who_ask_at_once_get_one_fork(shared: Live) -> None:
    await make_source(shared)
    answers = await asyncio.gather(*(shared.http.put(FORK, headers=FROM) for _ in range(5)))
    assert {answer.status_code for answer in answers} <= {200, 201}
    assert 201 in {answer.status_code for answer in answers}
    assert await numbers(shared) == [*range(COUNT)]
    again = await shared.http.put(FORK, headers=FROM)
    assert again.status_code == 200
    assert len({answer.headers["stream-next-offset"] for answer in (*answers, again)}) == 1


async def test_a_fork_that_ended_half_way_is_not_there_and_is_made_by_the_next(
    shared: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make_source(shared)
    copy = creating._copy

    async def copy_some(access: Access, source: bytes, stream: bytes, through: object) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(creating, "_entries", _first_page(creating._entries))
            await copy(access, source, stream, through)  # type: ignore[arg-type]
        raise ConnectionAbortedError

    with monkeypatch.context() as patch:
        patch.setattr(creating, "_copy", copy_some)
        assert (await shared.http.put(FORK, headers=FROM)).status_code == 500
    assert 0 < (await shared.http.get("/v1/streams/fork")).json()["length"] < COUNT
    assert (await shared.http.get(FORK)).status_code == 404
    assert (await shared.http.head(FORK)).status_code == 404
    assert (await shared.http.post(FORK, json=[1])).status_code == 404
    assert (await shared.http.put(FORK, headers=JSON)).status_code == 409
    assert (await shared.http.put(FORK, headers=FROM)).status_code == 201
    assert await numbers(shared) == [*range(COUNT)]


def _first_page(
    entries: Callable[..., Awaitable[list[Entry]]],
) -> Callable[..., Awaitable[list[Entry]]]:
    calls = count()

    async def first(*given: object) -> list[Entry]:
        return [] if next(calls) else await entries(*given)

    return first


async def test_a_source_goes_with_its_last_fork_and_keeps_no_entry_meanwhile(shared: Live) -> None:
    await make_source(shared)
    await shared.http.put(FORK, headers=FROM)
    assert (await shared.http.delete(SOURCE)).status_code == 204
    for answer in (await shared.http.get(SOURCE), await shared.http.delete(SOURCE)):
        assert (answer.status_code, answer.json()["code"]) == (410, "gone")
    assert (await shared.http.get("/v1/streams/source")).json()["length"] == 0
    assert await numbers(shared) == [*range(COUNT)]
    assert (await shared.http.delete(FORK)).status_code == 204
    assert (await shared.http.get(SOURCE)).status_code == 404


async def test_the_last_of_a_chain_of_forks_takes_the_whole_chain_with_it(shared: Live) -> None:
    links = [f"/v1/stream/link-{number}" for number in range(50)]
    await shared.http.put(links[0], headers=JSON)
    await shared.http.post(links[0], json=["a"])
    for before, link in pairwise(links):
        made = await shared.http.put(link, headers={"Stream-Forked-From": before})
        assert made.status_code == 201
    for link in links[:-1]:
        assert (await shared.http.delete(link)).status_code == 204
    assert (await shared.http.get(links[-1])).json() == ["a"]
    assert (await shared.http.delete(links[-1])).status_code == 204
    assert {(await shared.http.get(link)).status_code for link in links} == {404}


async def test_a_fork_that_went_by_itself_is_no_reason_to_stay(shared: Live) -> None:
    await make_source(shared)
    await shared.http.put(FORK, headers=FROM)
    await shared.http.delete("/v1/streams/fork")  # not by the protocol
    assert (await shared.http.delete(SOURCE)).status_code == 204
    assert (await shared.http.get(SOURCE)).status_code == 404


async def test_a_refused_fork_leaves_nothing(shared: Live) -> None:
    await make_source(shared)
    refused = [
        ({**FROM, "Content-Type": "text/plain"}, 409),
        ({**FROM, "Stream-Fork-Offset": "x"}, 400),
        ({**FROM, "Stream-Fork-Offset": f"{10**19}_0"}, 400),
        ({**FROM, "Stream-Fork-Offset": "-1", "Stream-Fork-Sub-Offset": str(COUNT + 1)}, 400),
        ({**FROM, "Stream-Fork-Offset": "-1", "Stream-Fork-Sub-Offset": str(10**14)}, 400),
        ({"Stream-Forked-From": "/v1/stream/none"}, 404),
        ({"Stream-Forked-From": "source"}, 404),
        ({"Stream-Forked-From": "/v1/stream/__ds"}, 404),
    ]
    for headers, status in refused:
        answer = await shared.http.put(FORK, headers=headers)
        assert answer.status_code == status, (headers, answer.text)
    assert (await shared.http.get(FORK)).status_code == 404
    assert len(await shared.gateway.backend.perform(GetAttributes(b"source"))) == 1


async def test_a_sub_offset_may_be_some_pages(shared: Live) -> None:
    await make_source(shared)
    headers = {**FROM, "Stream-Fork-Offset": "-1", "Stream-Fork-Sub-Offset": "2100"}
    assert (await shared.http.put(FORK, headers=headers)).status_code == 201
    assert await numbers(shared) == [*range(2100)]


async def test_a_source_forgets_forks_that_went_by_themselves_when_there_is_no_room(
    shared: Live,
) -> None:
    await shared.http.put(SOURCE, headers=JSON)
    perform = shared.gateway.backend.perform
    gone = [FORK_ATTRIBUTE + f"{number:04}".encode() + b"x" * 200_000 for number in range(5)]
    await perform(ChangeAttributes(b"source", AttributeChange(dict.fromkeys(gone, b""))))
    for number in range(300):
        headers = {**JSON, "Producer-Id": f"{number}" * 60, "Producer-Epoch": "0"}
        headers["Producer-Seq"] = "0"
        answer = await shared.http.post(SOURCE, headers=headers, json=number)
        assert answer.status_code == 200, answer.text
    assert (await shared.http.put(FORK, headers=FROM)).status_code == 201
    await perform(ChangeAttributes(b"source", AttributeChange(dict.fromkeys(gone[1:], b""))))
    for number in range(300):
        answer = await shared.http.put(f"{FORK}-{number}-{'f' * 200}", headers=FROM)
        assert answer.status_code == 201, answer.text


async def test_a_source_that_goes_while_it_is_forked_leaves_no_fork(
    shared: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make_source(shared)

    async def gone(*_: object) -> None:
        await shared.http.delete(SOURCE)
        raise StreamNotFound(b"source")

    with monkeypatch.context() as patch:
        patch.setattr(creating, "_refer", gone)
        assert (await shared.http.put(FORK, headers=FROM)).status_code == 404
    assert (await shared.http.get("/v1/streams/fork")).status_code == 404


async def fork_while(
    shared: Live, monkeypatch: pytest.MonkeyPatch, act: Callable[[], Awaitable[object]]
) -> httpx.Response:
    """Make a fork, and let something happen once its source knows of it."""
    refer = creating._refer

    async def refer_and_act(access: Access, source: bytes, stream: bytes) -> None:
        await refer(access, source, stream)
        await act()

    with monkeypatch.context() as patch:
        patch.setattr(creating, "_refer", refer_and_act)
        return await shared.http.put(FORK, headers=FROM)


async def test_a_fork_that_somebody_else_writes_to_is_given_up(
    shared: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make_source(shared)
    answer = await fork_while(shared, monkeypatch, lambda: shared.append("fork", "early"))
    assert (answer.status_code, answer.json()["code"]) == (409, "stream_exists")
    assert (await shared.http.get("/v1/streams/fork")).status_code == 404
    assert (await shared.http.put(FORK, headers=FROM)).status_code == 201
    assert await numbers(shared) == [*range(COUNT)]


async def test_a_source_that_is_made_anew_meanwhile_is_not_what_was_asked_for(
    shared: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def make_anew() -> None:
        await shared.http.delete("/v1/streams/source")
        await make_source(shared)

    await make_source(shared)
    assert (await fork_while(shared, monkeypatch, make_anew)).status_code == 409
    assert (await shared.http.get(FORK)).status_code == 404


async def test_a_source_that_is_deleted_beside_a_new_fork_keeps_what_that_needs(
    shared: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def delete_source() -> None:
        assert (await shared.http.delete(SOURCE)).status_code == 204

    await make_source(shared)
    await shared.http.put(f"{FORK}-old", headers=FROM)
    assert (await fork_while(shared, monkeypatch, delete_source)).status_code == 201
    assert await numbers(shared) == [*range(COUNT)]


async def test_a_source_has_a_bound_for_its_forks(
    shared: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    await shared.http.put(SOURCE, headers=JSON)
    monkeypatch.setattr(creating, "FORKS_MAX", 3)
    answers = [await shared.http.put(f"{FORK}{number}", headers=FROM) for number in range(4)]
    assert [answer.status_code for answer in answers] == [201, 201, 201, 409]
    assert (await shared.http.get(f"{FORK}3")).status_code == 404
    assert (await shared.http.put(f"{FORK}1", headers=FROM)).status_code == 200
