"""Groups over patterns: a read has the streams that its credential may consume."""

import pytest

from headgate.app.auth.grants import Grant, Verb
from tests.api.auth.secured import Secured
from tests.api.conftest import refusal_of

pytestmark = pytest.mark.asyncio(loop_scope="session")

GROUPS = "/v1/groups/billing"
READ = f"{GROUPS}/read?match=orders.*&consumer=me"
CREATE = {"create": {"start": "0"}}


async def test_only_streams_that_may_be_consumed_are_read_and_settled(gateway: Secured) -> None:
    for stream in ("orders.ann.1", "orders.ben.1"):
        await gateway.live.append(stream, "1")
        await gateway.live.create_group(stream, "billing")
    key = await gateway.key(
        Grant(streams=["orders.ann.*"], do=[Verb.CONSUME], groups=["bill*"], consumer="me")
    )
    async with gateway.client(key) as http:
        read = (await http.post(READ, json=CREATE)).json()
        [ours] = [entry["id"] for entry in read["entries"]]
        own = {"stream": "orders.ann.1", "ids": [ours]}
        other = {"stream": "orders.ben.1", "ids": ["1-0"]}
        refused = await http.post(f"{GROUPS}/ack?consumer=me", json={"entries": [own, other]})
        pending = await gateway.live.group("orders.ann.1", "billing")
        as_other = await http.post(f"{READ[:-2]}you", json={})
    assert [entry["stream"] for entry in read["entries"]] == ["orders.ann.1"]
    assert refusal_of(refused)[:2] == (403, "forbidden")
    assert pending["pending"] == 1
    assert as_other.json()["entries"] == []


async def test_a_group_is_created_only_where_the_credential_manages_it(gateway: Secured) -> None:
    for stream in ("orders.ann.1", "orders.ben.1"):
        await gateway.live.append(stream, "1")
    key = await gateway.key(
        Grant(streams=["orders.*"], do=[Verb.CONSUME]),
        Grant(streams=["orders.ann.*"], do=[Verb.MANAGE]),
    )
    async with gateway.client(key) as http:
        read = (await http.post(READ, json=CREATE)).json()
        policy = {"max_deliveries": 1, "dead_letter_stream": "orders.dead"}
        refused = await http.post(READ, json={"create": {"policy": policy}})
    assert [entry["stream"] for entry in read["entries"]] == ["orders.ann.1"]
    assert refusal_of(refused)[:2] == (403, "forbidden")
