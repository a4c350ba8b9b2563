"""Commits over REST: what a step says, what a problem says, and who may do what."""

import itertools
from typing import Any

import httpx
import pytest
import pytest_asyncio

from headgate.engine.limits import COMMIT_STEPS_MAX
from tests.api.conftest import Live, refusal_of

pytestmark = pytest.mark.asyncio(loop_scope="session")

OWN = {"stream": "orders", "group": "billing"}


@pytest_asyncio.fixture(loop_scope="session")
async def order(shared: Live) -> str:
    """An entry that is pending with Ana."""
    await shared.ask("PUT /v1/streams/orders/groups/billing", {"start": "0", "create_stream": True})
    entry_id: str = (await shared.ask("POST /v1/streams/orders/entries", {"fields": {"n": "1"}}))[
        "id"
    ]
    await shared.ask("POST /v1/streams/orders/groups/billing/read?consumer=ana", {})
    return entry_id


def bill(*values: str) -> dict[str, Any]:
    return {
        "append": {"stream": "bills", "entries": [{"fields": {"n": value}} for value in values]}
    }


async def commit(
    live: Live, *steps: Any, consumer: str | None = None, **headers: str
) -> httpx.Response:
    body = {"steps": list(steps)} | ({} if consumer is None else {"consumer": consumer})
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await live.http.post("/v1/commit", json=body, headers=named)


async def test_each_step_has_a_result(shared: Live, order: str) -> None:
    done = await commit(shared, bill("1", "2"), {"ack": {**OWN, "ids": [order]}}, consumer="ana")
    assert done.status_code == 200
    entries = (await shared.ask("GET /v1/streams/bills/entries"))["entries"]
    assert done.json() == {"results": [{"ids": [each["id"] for each in entries]}, {}]}


async def test_a_repeat_has_the_same_answer_and_says_that_it_is_one(
    shared: Live, order: str
) -> None:
    steps = bill("1"), {"ack": {**OWN, "ids": [order], "deliveries": [1]}}
    first, again = [
        await commit(shared, *steps, consumer="ana", idempotency_key="k") for _ in range(2)
    ]
    assert first.json() == again.json()
    replayed = [each.headers.get("Idempotent-Replayed") for each in (first, again)]
    assert replayed == [None, "true"]
    other = await commit(shared, bill("2"), consumer="ana", idempotency_key="k")
    assert refusal_of(other) == (422, "idempotency_mismatch", "")


async def test_a_key_of_a_commit_is_none_of_an_append(shared: Live) -> None:
    await commit(shared, bill("1"), idempotency_key="k")
    appended = await shared.http.post(
        "/v1/streams/bills/entries", json={"fields": {"n": "2"}}, headers={"Idempotency-Key": "k"}
    )
    assert appended.status_code == 201


async def test_the_consumer_may_be_named_in_the_query(shared: Live, order: str) -> None:
    body = {"steps": [{"ack": {**OWN, "ids": [order]}}]}
    assert (await shared.http.post("/v1/commit?consumer=ana", json=body)).status_code == 200
    conflict = await shared.http.post("/v1/commit?consumer=ben", json=body | {"consumer": "ana"})
    assert refusal_of(conflict) == (400, "consumer_conflict", "/body/consumer")


async def test_who_has_an_entry_is_told(shared: Live, order: str) -> None:
    lost = await commit(shared, bill("1"), {"ack": {**OWN, "ids": [order, "1-0"]}}, consumer="ben")
    assert refusal_of(lost) == (409, "not_yours", "/body/steps/1/ack")
    problem = lost.json()
    assert problem["step"] == 1
    assert problem["held"] == [{"id": order, "consumer": "ana", "deliveries": 1}, {"id": "1-0"}]


WRONG: list[tuple[Any, str]] = [
    ({}, "/body/steps/1"),
    ({"ack": {}, "cancel": {"name": "x"}}, "/body/steps/1/ack/ids"),
    ({"cancel": None}, "/body/steps/1"),
    ({"take": {}}, "/body/steps/1/take"),
    ({"append": {"stream": "bills", "entries": []}}, "/body/steps/1/append/entries"),
    (
        {"append": {"stream": "bills", "entries": [{"fields": {"n": "1"}, "id": "5-0"}]}},
        "/body/steps/1/append/entries/0/id",
    ),
    (
        {"append": {"stream": "bills", "entries": [{"fields": {"n": "?"}, "base64": ["n"]}]}},
        "/body/steps/1/append/entries/0/fields/n",
    ),
    (
        {"append": {"stream": "", "entries": [{"fields": {"n": "1"}}]}},
        "/body/steps/1/append/stream",
    ),
    ({"ack": {**OWN, "ids": ["x"]}}, "/body/steps/1/ack/ids/0"),
    ({"ack": {**OWN, "ids": ["1-0", "1-0"]}}, "/body/steps/1/ack/ids/1"),
    ({"ack": {**OWN, "ids": ["1-0"], "deliveries": []}}, "/body/steps/1/ack"),
    ({"put_row": {"stream": "bills", "key": "base64:?"}}, "/body/steps/1/put_row/key"),
    (
        {"delete_row": {"stream": "bills", "key": "1", "if_match": "1-0", "if_none_match": "*"}},
        "/body/steps/1/delete_row",
    ),
    (
        {"schedule": {"name": "t", "stream": "s", "fields": {"n": "1"}}},
        "/body/steps/1/schedule/at_ms",
    ),
    (
        {"schedule": {"name": "t", "stream": "s", "fields": {"_schedule": "1"}, "at_ms": 1}},
        "/body/steps/1/schedule/fields",
    ),
]


@pytest.mark.parametrize(("step", "pointer"), WRONG)
async def test_a_wrong_step_is_named_and_changes_nothing(
    shared: Live, step: Any, pointer: str
) -> None:
    refused = await commit(shared, bill("1"), step, consumer="ana")
    assert refused.status_code in (400, 422)
    problem = refused.json()
    assert (problem["errors"][0]["pointer"], problem["step"]) == (pointer, 1)
    assert (await shared.http.get("/v1/streams/bills")).status_code == 404


async def test_a_commit_has_at_most_so_many_steps(shared: Live) -> None:
    too_many = await commit(shared, *itertools.repeat(bill("1"), COMMIT_STEPS_MAX + 1))
    assert refusal_of(too_many) == (422, "invalid_request", "/body/steps")


async def test_entries_that_are_settled_belong_to_a_consumer(shared: Live, order: str) -> None:
    refused = await commit(shared, {"ack": {**OWN, "ids": [order]}})
    assert refusal_of(refused) == (400, "consumer_required", "/body/consumer")


async def test_a_timer_appends_once_and_is_gone(shared: Live) -> None:
    await shared.ask("PUT /v1/streams/late", {})
    timer = {"name": "t", "stream": "late", "fields": {"n": "1"}, "at_ms": 1}
    await commit(shared, {"schedule": timer})
    page = await shared.ask(
        "POST /v1/read", {"streams": [{"stream": "late", "after": "0"}], "wait_ms": 20_000}
    )
    [entry] = page["streams"][0]["entries"]
    assert entry["fields"] == {"n": "1", "_schedule": "t", "_due_ms": "1"}
    assert (await shared.ask("GET /v1/schedules"))["schedules"] == []


async def test_a_timer_is_replaced_and_cancelled(shared: Live) -> None:
    timer = {"name": "t", "stream": "late", "fields": {"n": "1"}, "at_ms": 2**52}
    await commit(shared, {"schedule": timer})
    await commit(shared, {"schedule": {**timer, "at_ms": 2**51}})
    [listed] = (await shared.ask("GET /v1/schedules"))["schedules"]
    assert listed["next_due_ms"] == 2**51
    for _ in range(2):
        assert (await commit(shared, {"cancel": {"name": "t"}})).status_code == 200
    assert (await shared.ask("GET /v1/schedules"))["schedules"] == []
