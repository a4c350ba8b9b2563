"""Grants hold for durable streams and their subscriptions as for everything else."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from headgate.app.auth.grants import Grant, Verb
from headgate.engine.limits import ATTRIBUTE_BYTES, ATTRIBUTES_BYTES_MAX
from headgate.engine.requests.streams import AttributeChange, ChangeAttributes, GetAttributes
from tests.api.auth.secured import Secured, secured

TEXT = {"Content-Type": "text/plain"}
THERE = "/v1/stream/there"
NEW = "/v1/stream/new"
SUBSCRIPTION = "/v1/stream/__ds/subscriptions/s"
PULL = {"type": "pull-wake", "pattern": "**", "wake_stream": "wakes"}


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Secured]:
    async with secured(tmp_path) as gateway:
        assert (await gateway.admin.put(THERE, headers=TEXT, content=b"a")).status_code == 201
        yield gateway


async def statuses(gateway: Secured, *grants: Grant) -> dict[str, int]:
    async with gateway.client(await gateway.key(*grants)) as http:
        made = await http.put(NEW, headers=TEXT)
        answers = {
            "create": made,
            "again": await http.put(THERE, headers=TEXT),
            "append": await http.post(THERE, headers=TEXT, content=b"b"),
            "read": await http.get(THERE),
            "head": await http.head(THERE),
            "fork": await http.put("/v1/stream/f", headers={"Stream-Forked-From": THERE}),
            "close": await http.post(THERE, headers={"Stream-Closed": "true"}),
            "delete": await http.delete(THERE),
        }
    return {name: answer.status_code for name, answer in answers.items()}


READS, WRITES = {"read": 200, "head": 200}, {"again": 200, "append": 204}
NOTHING = dict.fromkeys(
    ("create", "again", "append", "read", "head", "fork", "close", "delete"), 403
)


@pytest.mark.parametrize(
    ("do", "create", "allowed"),
    [
        ([Verb.READ], False, READS),
        ([Verb.CONSUME], False, {}),
        ([Verb.APPEND], False, WRITES),
        ([Verb.APPEND], True, {**WRITES, "create": 201}),
        ([Verb.APPEND, Verb.READ], True, {**WRITES, "create": 201, **READS, "fork": 201}),
        ([Verb.MANAGE], False, {"close": 204, "delete": 204}),
    ],
)
async def test_each_verb_allows_what_it_says(
    gateway: Secured, do: list[Verb], create: bool, allowed: dict[str, int]
) -> None:
    seen = await statuses(gateway, Grant(streams=["*"], do=do, create=create))
    assert seen == {**NOTHING, **allowed}


async def test_a_fork_that_is_refused_changes_nothing(gateway: Secured) -> None:
    perform = gateway.live.gateway.backend.perform
    before = await perform(GetAttributes(b"there"))
    fork = {"Stream-Forked-From": THERE}
    no_create = Grant(streams=["*"], do=[Verb.READ, Verb.APPEND])
    no_manage = Grant(streams=["*"], do=[Verb.READ, Verb.APPEND], create=True)
    async with gateway.client(await gateway.key(no_create)) as http:
        assert (await http.put("/v1/stream/f", headers=fork)).status_code == 403
    async with gateway.client(await gateway.key(no_manage)) as http:
        closed = {**fork, "Stream-Closed": "true"}
        assert (await http.put("/v1/stream/f", headers=closed)).status_code == 403
    assert await perform(GetAttributes(b"there")) == before
    assert (await gateway.admin.get("/v1/streams/f")).status_code == 404


async def test_other_streams_are_out_of_reach(gateway: Secured) -> None:
    assert await statuses(gateway, Grant(streams=["mine*"], do=[*Verb][:4], create=True)) == NOTHING


async def test_a_ticket_reads_in_a_browser(gateway: Secured) -> None:
    wanted = {"stream": "there", "do": ["read"]}
    ticket = (await gateway.admin.post("/v1/tickets", json=wanted)).json()["ticket"]
    async with gateway.client(None) as http:
        assert (await http.get(THERE)).status_code == 401
        assert (await http.get(THERE, params={"ticket": ticket})).text == "a"


async def test_a_subscription_tells_only_what_its_maker_may_read(gateway: Secured) -> None:
    await gateway.admin.put("/v1/stream/secret", headers=TEXT, content=b"a")
    grants = [
        Grant(streams=["__ds:s"], do=[Verb.MANAGE, Verb.READ, Verb.CONSUME]),
        Grant(streams=["there"], do=[Verb.READ]),
        Grant(streams=["wakes"], do=[Verb.APPEND]),
    ]
    async with gateway.client(await gateway.key(*grants)) as http:
        explicit = await http.put(SUBSCRIPTION, json={**PULL, "streams": ["secret"]})
        assert explicit.status_code == 403
        other = await http.put(SUBSCRIPTION, json={**PULL, "wake_stream": "elsewhere"})
        assert other.status_code == 403
        made = await http.put(SUBSCRIPTION, json=PULL)
        assert made.status_code == 201
        assert [each["path"] for each in made.json()["streams"]] == ["there"]
        assert (await http.put(f"{SUBSCRIPTION}2", json=PULL)).status_code == 403
    only_reads = Grant(streams=["there"], do=[Verb.READ, Verb.CONSUME, Verb.MANAGE])
    async with gateway.client(await gateway.key(only_reads)) as http:
        assert await _subscription_statuses(http) == [403] * 4


@pytest.mark.parametrize(("streams", "producer"), [("there", "w"), ("*", "w"), ("*", "3:ann/w")])
async def test_a_producer_is_its_principal_s(gateway: Secured, streams: str, producer: str) -> None:
    writing = Grant(streams=[streams], do=[Verb.READ, Verb.APPEND])
    async with (
        gateway.client(await gateway.key(writing, name="ann")) as ann,
        gateway.client(await gateway.key(writing, name="bob")) as bob,
    ):

        async def append(http: httpx.AsyncClient, body: bytes, epoch: int, seq: int) -> int:
            name = "w" if http is ann else producer
            place = {"Producer-Id": name, "Producer-Epoch": str(epoch), "Producer-Seq": str(seq)}
            return (await http.post(THERE, headers={**TEXT, **place}, content=body)).status_code

        assert [await append(ann, b"1", 0, 0), await append(bob, b"x", 0, 0)] == [200, 200]
        assert [await append(bob, b"y", 0, 1), await append(ann, b"2", 0, 1)] == [200, 200]
        assert await append(bob, b"z", 2**53 - 1, 0) == 200
        assert [await append(ann, b"2", 0, 1), await append(ann, b"3", 0, 2)] == [204, 200]
        assert (await ann.get(THERE)).text == "a1xy2z3"


async def test_producers_of_a_principal_leave_room_to_others(gateway: Secured) -> None:
    writing = Grant(streams=["there"], do=[Verb.APPEND])
    place = b"0 0 %d" % gateway.live.gateway.auth.now_ms()  # or else it is idle
    places: dict[bytes, bytes | None] = {
        b"durable-stream:producer:3:ann/%d" % number: place
        for number in range(ATTRIBUTES_BYTES_MAX // 2 // ATTRIBUTE_BYTES)
    }
    change = ChangeAttributes(b"there", AttributeChange(places))
    await gateway.live.gateway.backend.perform(change)
    new = {**TEXT, "Producer-Id": "new", "Producer-Epoch": "0", "Producer-Seq": "0"}
    for name, status in (("ann", 409), ("bob", 200)):
        async with gateway.client(await gateway.key(writing, name=name)) as http:
            answer = await http.post(THERE, headers=new, content=b"b")
            assert answer.status_code == status, answer.text


async def test_a_fork_of_a_reader_takes_nothing_of_its_source(gateway: Secured) -> None:
    reading = Grant(streams=["there"], do=[Verb.READ])
    own = Grant(streams=["bob"], do=[Verb.READ, Verb.APPEND, Verb.MANAGE], create=True)
    perform = gateway.live.gateway.backend.perform
    before = await perform(GetAttributes(b"there"))
    async with gateway.client(await gateway.key(reading, own)) as http:
        forked = await http.put("/v1/stream/bob", headers={"Stream-Forked-From": THERE})
        assert forked.status_code == 201
        assert await perform(GetAttributes(b"there")) == before
        assert (await gateway.admin.delete(THERE)).status_code == 204
        assert (await gateway.admin.put(THERE, headers=TEXT)).status_code == 201
        assert (await http.get("/v1/stream/bob")).text == "a"


async def test_a_webhook_needs_the_right_to_push(gateway: Secured) -> None:
    wanted = {"type": "webhook", "pattern": "**", "webhook": {"url": "https://hooks.example/"}}
    for grants, status in (
        ([Grant(streams=["*"], do=[Verb.MANAGE, Verb.READ])], 403),
        ([Grant(streams=["__ds:*"], do=[Verb.MANAGE])], 403),
        ([Grant(streams=["__ds:s"], do=[Verb.MANAGE, Verb.PUSH])], 201),
    ):
        async with gateway.client(await gateway.key(*grants)) as http:
            assert (await http.put(SUBSCRIPTION, json=wanted)).status_code == status


async def _subscription_statuses(http: httpx.AsyncClient) -> list[int]:
    answers = [
        await http.get(SUBSCRIPTION),
        await http.post(f"{SUBSCRIPTION}/claim", json={"worker": "w"}),
        await http.post(f"{SUBSCRIPTION}/streams", json={"streams": ["there"]}),
        await http.delete(SUBSCRIPTION),
    ]
    return [answer.status_code for answer in answers]


async def test_a_worker_answers_by_its_token_alone(gateway: Secured) -> None:
    await gateway.admin.put("/v1/stream/wakes", json=[])
    await gateway.admin.put(SUBSCRIPTION, json=PULL)
    await gateway.admin.post(THERE, headers=TEXT, content=b"b")
    claimed = (await gateway.admin.post(f"{SUBSCRIPTION}/claim", json={"worker": "w"})).json()
    wake = {"wake_id": claimed["wake_id"], "generation": claimed["generation"]}
    async with gateway.client(claimed["token"]) as http:
        assert (await http.post(f"{SUBSCRIPTION}/ack", json=wake)).json()["ok"] is True
        assert (await http.get(THERE)).status_code == 401  # it is no key
    async with gateway.client(None) as http:
        refused = await http.post(f"{SUBSCRIPTION}/release", json=wake)
        assert (refused.status_code, refused.json()["error"]["code"]) == (401, "TOKEN_INVALID")
    async with gateway.client(claimed["token"]) as http:
        assert (await http.post(f"{SUBSCRIPTION}/release", json=wake)).status_code == 204
