"""Frames that make no sense where they come: each has its answer, and changes nothing."""

import json
from typing import Any

import pytest

from tests.api.conftest import Live
from tests.api.live.frames import frames_of
from tests.conditions import until

WS = "/v1/ws"
ID = "1-1"


@pytest.mark.parametrize(
    ("frame", "code", "pointer"),
    [
        ('{"type":"ack","sub":"g","ids":["1-1"]}', "not_found", "/body/sub"),
        ('{"type":"ack","ids":["1-1"]}', "not_found", "/body/sub"),
        ('{"type":"nack","sub":"g","ids":["1-1"]}', "not_found", "/body/sub"),
        ('{"type":"extend","sub":"g","ids":["1-1"]}', "not_found", "/body/sub"),
        ('{"type":"credit","sub":"g","entries":1}', "not_found", "/body/sub"),
        ('{"type":"unsubscribe","sub":"g"}', "not_found", "/body/sub"),
        ('{"type":"ack","sub":"","ids":["1-1"]}', "invalid_request", "/body/sub"),
        ('{"type":"ack","sub":7,"ids":["1-1"]}', "invalid_request", "/body/sub"),
        ('{"type":"ack","sub":null,"ids":["1-1"]}', "invalid_request", "/body/sub"),
        ('{"type":"unsubscribe"}', "invalid_request", "/body/sub"),
        ('{"type":"dance"}', "invalid_request", "/body/type"),
        ('{"type":null}', "invalid_request", "/body/type"),
        ('{"type":["ack"]}', "invalid_request", "/body/type"),
        ("{}", "invalid_request", "/body/type"),
        ('{"type":"credit","entries":1e400}', "invalid_request", "/body/entries"),
        ('{"type":"credit","entries":-1e400}', "invalid_request", "/body/entries"),
        ('{"type":"welcome"}', "invalid_request", "/body/type"),
    ],
)
async def test_a_frame_about_nothing_is_told_so_and_the_socket_stays(
    live: Live, frame: str, code: str, pointer: str
) -> None:
    async with frames_of(live, WS) as frames:
        await frames.socket.send(frame)
        problem = (await frames.next("problem"))["problem"]
        assert (problem["code"], problem["errors"][0]["pointer"]) == (code, pointer)
        await frames.send(type="ping", rid="still here")
        await frames.next("pong")


async def test_what_comes_in_the_wrong_order_changes_nothing(live: Live) -> None:
    await live.create_group("orders", "billing")
    [entry_id] = await live.append("orders", "1")
    async with frames_of(live, WS) as frames:
        await frames.send(type="nack", rid="early", sub="g", ids=[entry_id])
        assert await frames.problem() == ("early", "not_found")
        await frames.subscribe("g", group="billing", consumer="me", on_disconnect="keep")
        assert await frames.ids(1) == [entry_id]
        again = {"sub": "g", "stream": "orders", "group": "billing", "consumer": "other"}
        await frames.send(type="subscribe", rid="again", **again)
        assert await frames.problem() == ("again", "invalid_request")
        await frames.send(type="unsubscribe", rid="u", sub="g")
        await frames.next("unsubscribed")
        for kind in ("ack", "nack", "extend"):
            await frames.send(type=kind, rid=kind, sub="g", ids=[entry_id])
            assert await frames.problem() == (kind, "not_found")
        await frames.send(type="unsubscribe", rid="twice", sub="g")
        assert await frames.problem() == ("twice", "not_found")
    group = await live.group("orders", "billing")
    assert (group["pending"], group["released"], group["consumers"]) == (1, 0, 1)


@pytest.mark.parametrize("credit", [2**63, 2**64, 10**400, 0, -1, 0.5, 1.0, "1", True, None, [1]])
async def test_credit_is_a_count(live: Live, credit: Any) -> None:
    await live.create_group("orders", "billing")
    ids = await live.append("orders", "1", "2")
    async with frames_of(live, WS) as frames:
        await frames.subscribe("g", group="billing", consumer="me", credit=1)
        assert await frames.ids(1) == ids[:1]
        await frames.send(type="credit", sub="g", entries=credit)
        assert (await frames.next("problem"))["problem"]["errors"][0]["pointer"] == "/body/entries"
        frame = {"type": "subscribe", "sub": "h", "stream": "orders", "credit": credit}
        await frames.socket.send(json.dumps(frame))
        assert (await frames.next("problem"))["problem"]["errors"][0]["pointer"] == "/body/credit"
        assert (await live.group("orders", "billing"))["pending"] == 1


@pytest.mark.parametrize("number", ["NaN", "Infinity", "0x10"])
async def test_a_number_that_is_none_is_no_frame(live: Live, number: str) -> None:
    async with frames_of(live, WS) as frames:
        await frames.socket.send(f'{{"type":"credit","sub":"g","entries":{number}}}')
        assert await frames.problem() == (None, "malformed")
        assert await frames.closed() == 4400
    await until(lambda: live.gateway.metrics.connection_count == 0)


async def test_the_most_credit_there_is_is_cut_to_what_a_subscription_may_hold(live: Live) -> None:
    await live.create_group("orders", "billing")
    ids = await live.append("orders", "1")
    async with frames_of(live, WS) as frames:
        await frames.subscribe("g", group="billing", consumer="me", credit=1)
        assert await frames.ids(1) == ids
        for _ in range(3):
            await frames.send(type="credit", sub="g", entries=2**63 - 1)
        await live.append("orders", "2")
        left = (await frames.next("entries"))["credit_left"]
    assert left <= live.gateway.limits.credit_max


async def test_a_client_that_says_only_nonsense_is_slowed_and_then_given_up(live: Live) -> None:
    async with frames_of(live, WS) as frames:
        for _ in range(999):
            await frames.socket.send('{"type":"dance"}')
        for _ in range(999):
            await frames.next("problem")
        await frames.send(type="ping", rid="one that makes sense")
        await frames.next("pong")
        for _ in range(1001):
            await frames.socket.send('{"type":"dance"}')
        codes = [(await frames.next("problem"))["problem"]["code"] for _ in range(1002)]
        assert codes == ["invalid_request"] * 1001 + ["malformed"]
        assert await frames.closed() == 4400
