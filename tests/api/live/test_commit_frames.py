"""Commits over a WebSocket: their answers, what subscriptions hold afterwards, and refusals."""

from typing import Any

import pytest

from headgate.engine.limits import COMMIT_ITEMS_MAX
from tests.api.conftest import Live
from tests.api.live.frames import Frames, frames_of

pytestmark = pytest.mark.asyncio(loop_scope="session")

URL = "/v1/ws"
WORK = {"type": "subscribe", "sub": "g", "stream": "orders", "group": "billing", "consumer": "me"}
OUT = "/v1/streams/out/entries"


def append(*values: str) -> dict[str, Any]:
    return {"append": {"stream": "out", "entries": [{"fields": {"v": value}} for value in values]}}


def settle(kind: str, *ids: str, stream: str = "orders", **more: Any) -> dict[str, Any]:
    return {kind: {"stream": stream, "group": "billing", "ids": ids, **more}}


async def working(frames: Frames, live: Live, count: int, *, credit: int) -> list[str]:
    """Read as a consumer; returns the ids of the first entries, as many as there is credit."""
    await live.create_group("orders", "billing")
    await live.append("orders", *map(str, range(count)))
    await frames.send(**WORK, credit=credit, auto_credit=True)
    await frames.next("subscribed")
    return await frames.ids(credit)


async def commit(frames: Frames, *steps: dict[str, Any], **more: Any) -> None:
    await frames.send(type="commit", rid="c", consumer="me", steps=steps, **more)


async def values(live: Live) -> list[str]:
    return [entry["fields"]["v"] for entry in (await live.ask(f"GET {OUT}"))["entries"]]


async def refused(frames: Frames, *steps: Any) -> dict[str, Any]:
    """Return the problem of a commit that must be refused."""
    await commit(frames, *steps)
    answer = await frames.next("problem")
    assert answer["rid"] == "c"
    problem: dict[str, Any] = answer["problem"]
    return problem


async def test_steps_are_carried_out_together_and_answered_in_order(shared: Live) -> None:
    async with frames_of(shared, URL) as frames:
        [first] = await working(frames, shared, 1, credit=1)
        entry = {"stream": "out", "entries": [{"fields": {"v": "a"}}]}
        await frames.send(type="append", rid="a", **entry)
        await commit(frames, append("b", "c"), settle("ack", first))
        await frames.send(type="append", rid="d", **entry)
        assert (await frames.next("appended"))["rid"] == "a"
        done = await frames.next("committed")
        assert done["rid"] == "c"
        assert [len(result.get("ids", ())) for result in done["results"]] == [2, 0]
        assert (await frames.next("appended"))["rid"] == "d"
    assert await values(shared) == ["a", "b", "c", "a"]
    assert (await shared.group("orders", "billing"))["pending"] == 0


@pytest.mark.parametrize("kind", ["ack", "nack"])
async def test_what_a_commit_settles_gives_its_credit_back(shared: Live, kind: str) -> None:
    async with frames_of(shared, URL) as frames:
        [first] = await working(frames, shared, 3, credit=1)
        await commit(frames, append("1"), settle(kind, first, deliveries=[1]))
        await frames.next("committed")
        [second] = await frames.ids(1)
        await commit(frames, settle("extend", second))
        await frames.next("committed")
        await frames.send(type="ping", rid="p")
        await frames.next("pong")  # and no entry: what is extended is still held
        await frames.send(type="credit", sub="g", entries=1)
        await frames.ids(1)


async def test_only_what_the_connection_itself_holds_gives_credit_back(shared: Live) -> None:
    async with frames_of(shared, URL) as frames:
        [first] = await working(frames, shared, 3, credit=1)
        other = (await shared.read_group("orders", "billing", "other"))["entries"]
        foreign = settle("ack", *(entry["id"] for entry in other))
        await frames.send(type="commit", rid="c", consumer="other", steps=[foreign])
        await frames.next("committed")
        await shared.append("orders", "new")
        await frames.send(type="ping", rid="p")
        await frames.next("pong")
        await commit(frames, settle("ack", first))
        await frames.next("committed")
        await frames.ids(1)


async def test_what_a_commit_settles_of_a_pattern_gives_its_credit_back(shared: Live) -> None:
    await shared.append("orders.a", "1", "2")
    async with frames_of(shared, URL) as frames:
        pattern = {"match": "orders.*", "create": {"start": "0"}, "credit": 1, "auto_credit": True}
        await frames.send(**{key: WORK[key] for key in WORK if key != "stream"}, **pattern)
        await frames.next("subscribed")
        [first] = await frames.ids(1)
        await commit(frames, settle("ack", first, stream="orders.a"))
        await frames.next("committed")
        await frames.ids(1)


async def test_a_commit_of_entries_that_another_consumer_has_says_who_has_them(
    shared: Live,
) -> None:
    async with frames_of(shared, URL) as frames:
        [first] = await working(frames, shared, 1, credit=1)
        await shared.claim("orders", "billing", "rival", ids=[first])
        await frames.next("claimed")
        problem = await refused(frames, append("1"), settle("ack", first))
        assert (problem["code"], problem["status"], problem["step"]) == ("not_yours", 409, 1)
        assert problem["held"] == [{"id": first, "consumer": "rival", "deliveries": 2}]
    assert (await shared.http.get(OUT)).status_code == 404


async def test_a_repeat_changes_nothing_whichever_way_the_commit_came_first(shared: Live) -> None:
    steps, key = [append("1"), append("2")], {"Idempotency-Key": "k"}
    async with frames_of(shared, URL) as frames:
        await commit(frames, *steps, idempotency_key="k")
        done = await frames.next("committed")
        await commit(frames, *steps, idempotency_key="k")
        assert await frames.next("committed") == {**done, "repeated": True}
        body = {"consumer": "me", "steps": steps}
        again = await shared.http.post("/v1/commit", json=body, headers=key)
        assert again.json() == {"results": done["results"]}
        await commit(frames, append("3"), idempotency_key="k")
        assert (await frames.problem())[1] == "idempotency_mismatch"
    assert await values(shared) == ["1", "2"]


async def test_a_repeat_does_not_settle_what_has_come_again_since(shared: Live) -> None:
    async with frames_of(shared, URL) as frames:
        [first] = await working(frames, shared, 1, credit=1)
        back = settle("nack", first, mode="silent")
        await commit(frames, back, idempotency_key="k")
        await frames.next("committed")
        assert await frames.ids(1) == [first]
        await commit(frames, back, idempotency_key="k")
        assert (await frames.next("committed"))["repeated"]
        [new] = await shared.append("orders", "new")
        await frames.send(type="ping", rid="p")
        await frames.next("pong")  # and no entry
    body = {"limit": 1, "wait_ms": 10_000}
    reads = [await shared.read_group("orders", "billing", "next", **body) for _ in range(2)]
    assert {read["entries"][0]["id"] for read in reads} == {first, new}  # it went back in the end


WRONG: list[tuple[Any, str]] = [
    ({"append": {"stream": "out", "entries": []}}, "/body/steps/1/append/entries"),
    ({"append": append("1")["append"] | {"stream": "a/b"}}, "/body/steps/1/append/stream"),
    ({"ack": {"stream": "orders", "group": "billing", "ids": ["x"]}}, "/body/steps/1/ack/ids/0"),
    ({"append": {}, "cancel": {}}, "/body/steps/1"),
    (settle("ack", "1-0", deliveries=["1"] * 1000), "/body/steps/1/ack/deliveries/0"),
    (append(*["1"] * COMMIT_ITEMS_MAX), "/body/steps"),
    (settle("ack", *["1"] * COMMIT_ITEMS_MAX), "/body/steps"),
    (
        {"append": {"stream": "out", "entries": [{"id": "7-0", "fields": {"v": "1"}}]}},
        "/body/steps/1/append/entries/0/id",
    ),
    (settle("ack", "1-0", "1-0"), "/body/steps/1/ack/ids/1"),
]


@pytest.mark.parametrize(("step", "pointer"), WRONG)
async def test_what_is_wrong_is_named_by_its_place(shared: Live, step: Any, pointer: str) -> None:
    async with frames_of(shared, URL) as frames:
        problem = await refused(frames, append("1"), step)
        assert problem["errors"][0]["pointer"].startswith(pointer), problem
        assert problem.get("step") == (None if pointer == "/body/steps" else 1)
    assert (await shared.http.get(OUT)).status_code == 404


async def test_a_commit_that_settles_names_its_consumer(shared: Live) -> None:
    async with frames_of(shared, URL) as frames:
        await frames.send(type="commit", steps=[settle("ack", "1-0")])
        assert (await frames.problem()) == (None, "consumer_required")
