"""Groups over patterns: bodies, answers and refusals of the REST face."""

import asyncio
from typing import Any

import pytest

from tests.api.conftest import Live, refusal_of

pytestmark = pytest.mark.asyncio(loop_scope="session")

GROUPS = "/v1/groups/billing"
READ = f"{GROUPS}/read?match=orders.*&consumer=me"
CREATE = {"create": {"start": "0"}}


async def test_entries_say_their_stream_and_are_settled_by_it(shared: Live) -> None:
    eu, us = await shared.append("orders.eu", "1", "2"), await shared.append("orders.us", "3")
    read = await shared.ask(f"POST {READ}", CREATE)
    entries = [(entry["stream"], entry["fields"]["v"]) for entry in read["entries"]]
    assert entries == [("orders.eu", "1"), ("orders.eu", "2"), ("orders.us", "3")]
    assert (read["pending"], read["state"]) == (3, "caught_up")
    own = [{"stream": "orders.us", "ids": us}, {"stream": "orders.eu", "ids": eu[:1]}]
    extended = await shared.ask(f"POST {GROUPS}/extend?consumer=me", {"entries": own})
    assert extended["streams"][0] == {
        "stream": "orders.us",
        "results": [{"id": us[0], "outcome": "extended"}],
    }
    await shared.ask(f"POST {GROUPS}/nack", {"entries": own[:1], "mode": "silent"})
    acked = await shared.ask(f"POST {GROUPS}/ack?consumer=me", {"entries": own[1:]})
    assert acked["streams"][0]["results"] == [{"id": eu[0], "outcome": "acked"}]
    again = await shared.ask(f"POST {READ}", {"ack": [{"stream": "orders.eu", "ids": eu[1:]}]})
    assert [entry["stream"] for entry in again["entries"]] == ["orders.us"]
    assert again["pending"] == 1


async def test_a_stream_that_is_gone_has_nothing_pending(shared: Live) -> None:
    [left] = await shared.append("orders.eu", "1")
    await shared.ask(f"POST {READ}", CREATE)
    entries = [{"stream": "orders.gone", "ids": ["1-0"]}, {"stream": "orders.eu", "ids": [left]}]
    acked = await shared.ask(f"POST {GROUPS}/ack", {"entries": entries})
    outcomes = [result["outcome"] for each in acked["streams"] for result in each["results"]]
    assert outcomes == ["not_pending", "acked"]


async def test_the_policy_of_new_groups_is_that_of_the_request(shared: Live) -> None:
    await shared.append("orders.eu", "1", "2")
    create = {"start": "0", "policy": {"max_pending": 1}}
    read = await shared.ask(f"POST {READ}", {"create": create})
    assert len(read["entries"]) == 1
    assert (await shared.group("orders.eu", "billing"))["policy"] == {"max_pending": 1}


async def test_a_wait_ends_with_an_entry_of_a_new_stream(shared: Live) -> None:
    reading = asyncio.create_task(shared.ask(f"POST {READ}", {**CREATE, "wait_ms": 20_000}))
    await shared.until_waiting(1)
    await shared.append("orders.new", "1")
    assert [entry["stream"] for entry in (await reading)["entries"]] == ["orders.new"]


MANY = {"entries": [{"stream": f"orders.{at}", "ids": ["1-0"]} for at in range(1001)]}
WEIGHTS = {f"orders.{at}": 1 for at in range(101)}


@pytest.mark.parametrize(
    ("request_line", "body", "refusal"),
    [
        (
            "POST /v1/groups/billing/read?match=a*",
            {},
            (400, "consumer_required", "/query/consumer"),
        ),
        ("POST /v1/groups/billing/read?consumer=me", {}, (422, "invalid_request", "/query/match")),
        (
            f"POST /v1/groups/billing/read?consumer=me&match={'a' * 257}",
            {},
            (422, "invalid_request", "/query/match"),
        ),
        (f"POST {READ}", {"limit": 0}, (422, "invalid_request", "/body/limit")),
        (
            f"POST {READ}",
            {"weights": {"orders.eu": 0}},
            (422, "invalid_request", "/body/weights/orders.eu"),
        ),
        (f"POST {READ}", {"weights": {"a/b": 1}}, (422, "invalid_request", "/body/weights")),
        (f"POST {READ}", {"weights": WEIGHTS}, (422, "invalid_request", "/body/weights")),
        (f"POST {READ}", {"max_pending": 0}, (422, "invalid_request", "/body/max_pending")),
        (
            f"POST {READ}",
            {"create": {"policy": {"max_deliveries": 1}}},
            (422, "invalid_request", "/body/create/policy"),
        ),
        (f"POST {READ}", {"create": {"start": "x"}}, (400, "invalid_id", "/body/create/start")),
        (
            f"POST {READ}",
            {"ack": [{"stream": "orders.eu", "ids": ["x"]}]},
            (400, "invalid_id", "/body/ack/0/ids/0"),
        ),
        (f"POST {GROUPS}/ack", {"entries": []}, (422, "invalid_request", "/body/entries")),
        (f"POST {GROUPS}/ack", MANY, (422, "invalid_request", "/body/entries")),
        (
            f"POST {GROUPS}/ack",
            {"entries": [{"stream": "a/b", "ids": ["1-0"]}]},
            (422, "invalid_request", "/body/entries/0/stream"),
        ),
        (
            f"POST {GROUPS}/extend",
            {"entries": [{"stream": "a", "ids": ["1-0"]}]},
            (400, "consumer_required", "/query/consumer"),
        ),
    ],
)
async def test_bad_requests_name_the_field(
    shared: Live, request_line: str, body: Any, refusal: tuple[int, str, str]
) -> None:
    method, _, url = request_line.partition(" ")
    before = shared.position
    assert refusal_of(await shared.http.request(method, url, json=body)) == refusal
    assert shared.position == before
