"""The policy of a group: asked for, shown, changed, refused; dead letters and their return."""

from typing import Any

import httpx
import pytest

from tests.api.conftest import Live, problem_in, refusal_of

pytestmark = pytest.mark.asyncio(loop_scope="session")

ORDERS = "/v1/streams/orders"
BILLING = f"{ORDERS}/groups/billing"
REDRIVE = f"{BILLING}/dead-letters/redrive"
ONCE = {"max_deliveries": 1, "dead_letter_stream": "dead_letters"}


async def put(live: Live, policy: Any = None, **body: Any) -> httpx.Response:
    asked = {"start": "0", "create_stream": True, **body}
    return await live.http.put(
        BILLING, json=asked if policy is None else asked | {"policy": policy}
    )


async def prepare(live: Live, policy: Any, *ids: str) -> None:
    """Make a group under a policy that has all of these before it."""
    answer = await put(live, policy)
    assert answer.status_code == 201, answer.text
    batch = [{"id": entry_id, "fields": {"v": entry_id}} for entry_id in ids]
    answer = await live.http.post(f"{ORDERS}/entries/batch", json=batch)
    assert answer.status_code == 201, answer.text


async def read_ids(live: Live, consumer: str = "worker", **body: Any) -> list[str]:
    reply = await live.read_group("orders", "billing", consumer, **body)
    return [entry["id"] for entry in reply["entries"]]


async def policy_of(live: Live) -> dict[str, Any]:
    policy: dict[str, Any] = (await live.group("orders", "billing"))["policy"]
    return policy


# Ask for one, see it, change it


async def test_a_group_is_created_with_its_policy(shared: Live) -> None:
    policy = {
        "claim_idle_ms": 30_000,
        "max_deliveries": 5,
        "dead_letter_stream": "dead ü",
        "backoff_ms": [1_000, 10_000],
        "max_pending": 100,
        "on_disconnect": "keep",
        "consumer_ttl_ms": 60_000,
    }

    answer = await put(shared, policy)

    assert (answer.status_code, answer.json()["policy"]) == (201, policy)
    assert await policy_of(shared) == policy
    listed = (await shared.http.get(f"{ORDERS}/groups")).json()["groups"]
    assert [group["policy"] for group in listed] == [policy]


# Types, ranges and unknown names are tried in every place: see refusals/test_places.
@pytest.mark.parametrize("method", ["PUT", "PATCH"])
@pytest.mark.parametrize(
    ("policy", "pointer"),
    [
        ({"claim_idle_ms": True}, "/claim_idle_ms"),
        ({"backoff_ms": [1, -2]}, "/backoff_ms/1"),
        ({"backoff_ms": [1] * 33}, "/backoff_ms"),
        ({"max_deliveries": 3}, ""),
        ({"dead_letter_stream": "dead_letters"}, ""),
        ({**ONCE, "dead_letter_stream": "orders"}, "/dead_letter_stream"),
        ({**ONCE, "dead_letter_stream": ""}, "/dead_letter_stream"),
        ({**ONCE, "dead_letter_stream": "a/b"}, "/dead_letter_stream"),
        ({**ONCE, "dead_letter_stream": "ü" * 129}, "/dead_letter_stream"),
        ({"filters": [{"exact": {"kind": 1}}]}, "/filters/0/exact/kind"),
        ({"filters": [{"equals": {"kind": "x"}}]}, "/filters/0/equals"),
        ({"filters": [{"exact": {"kind": "x" * 4096}}]}, "/filters"),
        ({"filters": [{"present": "x"}] * 64}, "/filters/63"),
        ({"filters": [{"present": "x"}] * 65}, "/filters"),
        ({"key_field": ""}, "/key_field"),
        ({"key_field": "x" * 257}, "/key_field"),
    ],
)
async def test_a_policy_that_cannot_be_is_refused_at_the_part_at_fault(
    shared: Live, method: str, policy: Any, pointer: str
) -> None:
    await shared.http.put(ORDERS)
    if method == "PATCH":
        await put(shared)
    answer = await shared.http.request(method, BILLING, json={"policy": policy})
    assert refusal_of(answer) == (422, "invalid_request", f"/body/policy{pointer}")
    if method == "PATCH":
        assert await policy_of(shared) == {}
    else:
        assert refusal_of(await shared.http.get(BILLING)) == (404, "group_not_found", "")


async def test_an_error_that_is_too_long_is_refused(shared: Live) -> None:
    await prepare(shared, None, "1-0")
    await read_ids(shared)
    answer = await shared.http.post(f"{BILLING}/nack", json={"ids": ["1-0"], "error": "x" * 1_001})
    assert refusal_of(answer) == (422, "invalid_request", "/body/error")
    assert (await shared.group("orders", "billing"))["released"] == 0


# Redrive


async def test_dead_letters_are_sent_back_by_id_and_up_to_a_limit(shared: Live) -> None:
    async def dead() -> list[str]:
        answer = await shared.http.get("/v1/streams/dead_letters/entries")
        return [entry["id"] for entry in answer.json()["entries"]]

    await prepare(shared, ONCE, "1-0", "2-0", "3-0")
    read = await read_ids(shared)
    assert await shared.outcomes("nack", "orders", "billing", read) == ["released"] * 3
    ids = await dead()
    for body, sent_back in (({"ids": [ids[1], "9-9"]}, "2-0"), ({"limit": 1}, "1-0")):
        answer = await shared.http.post(REDRIVE, json=body)
        assert [result["entry_id"] for result in answer.json()["results"]] == [sent_back]
    assert await dead() == ids[2:]


async def test_a_redrive_that_makes_no_sense_is_refused(shared: Live) -> None:
    await put(shared, ONCE)
    for body, problem in (
        ({"limit": 10**9}, (422, "invalid_request", "/body/limit")),
        ({"ids": []}, (422, "invalid_request", "/body/ids")),
        ({"ids": ["1-0", 5]}, (422, "invalid_request", "/body/ids/1")),
        ({"ids": ["x"]}, (400, "invalid_id", "/body/ids/0")),
    ):
        assert refusal_of(await shared.http.post(REDRIVE, json=body)) == problem


async def test_filters_are_shown_as_they_were_written(shared: Live) -> None:
    filters = [{"exact": {"v": "2-0"}}, {"not": {"present": "orderId"}}]
    await prepare(shared, {"filters": filters}, "1-0", "2-0", "3-0")
    assert (await policy_of(shared))["filters"] == filters
    assert await read_ids(shared) == ["2-0"]


async def test_filters_that_are_nested_too_deep_are_refused(shared: Live) -> None:
    deep: dict[str, Any] = {"present": "x"}
    for _ in range(64):
        deep = {"not": deep}
    problem = problem_in(await put(shared, {"filters": [deep]}))
    assert "at most 64 conditions" in problem["detail"]
