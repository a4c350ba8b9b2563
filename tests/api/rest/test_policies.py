"""The policy of a group: asked for, shown, changed, refused; dead letters and their return."""

from typing import Any

import httpx
import pytest

from tests.api.conftest import Live, problem_in, refusal_of

pytestmark = pytest.mark.asyncio(loop_scope="session")

ORDERS = "/v1/streams/orders"
BILLING = f"{ORDERS}/groups/billing"
REDRIVE = f"{BILLING}/dead-letters/redrive"
DEAD_LETTERS = "/v1/streams/dead_letters/entries"
ONCE = {"max_deliveries": 1, "dead_letter_stream": "dead_letters"}


async def put(live: Live, policy: Any = None, **body: Any) -> httpx.Response:
    asked = {"start": "0", "create_stream": True, **body}
    return await live.http.put(
        BILLING, json=asked if policy is None else asked | {"policy": policy}
    )


async def patch(live: Live, policy: Any, **body: Any) -> httpx.Response:
    return await live.http.patch(BILLING, json={"policy": policy, **body})


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


async def nack(live: Live, *ids: str, **body: Any) -> None:
    outcomes = await live.outcomes("nack", "orders", "billing", list(ids), **body)
    assert outcomes == ["released"] * len(ids)


async def dead_letters(live: Live) -> list[dict[str, Any]]:
    answer = await live.http.get(DEAD_LETTERS)
    assert answer.status_code == 200, answer.text
    entries: list[dict[str, Any]] = answer.json()["entries"]
    return entries


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


# Refused


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
@pytest.mark.parametrize(
    ("policy", "pointer"),
    [
        ({"colour": "red"}, "/body/policy/colour"),
        ({"claim_idle_ms": "5"}, "/body/policy/claim_idle_ms"),
        ({"claim_idle_ms": -1}, "/body/policy/claim_idle_ms"),
        ({"claim_idle_ms": 1.5}, "/body/policy/claim_idle_ms"),
        ({"claim_idle_ms": True}, "/body/policy/claim_idle_ms"),
        ({"claim_idle_ms": 2**63}, "/body/policy/claim_idle_ms"),
        ({**ONCE, "max_deliveries": 0}, "/body/policy/max_deliveries"),
        ({"max_pending": 0}, "/body/policy/max_pending"),
        ({"consumer_ttl_ms": 0}, "/body/policy/consumer_ttl_ms"),
        ({"backoff_ms": 5}, "/body/policy/backoff_ms"),
        ({"backoff_ms": [1, "2"]}, "/body/policy/backoff_ms/1"),
        ({"backoff_ms": [1, -2]}, "/body/policy/backoff_ms/1"),
        ({"backoff_ms": [1] * 33}, "/body/policy/backoff_ms"),
        ({"on_disconnect": "maybe"}, "/body/policy/on_disconnect"),
        ({"max_deliveries": 3}, "/body/policy"),
        ({"dead_letter_stream": "dead_letters"}, "/body/policy"),
        ({**ONCE, "dead_letter_stream": 5}, "/body/policy/dead_letter_stream"),
        ({**ONCE, "dead_letter_stream": "orders"}, "/body/policy/dead_letter_stream"),
        ({**ONCE, "dead_letter_stream": ""}, "/body/policy/dead_letter_stream"),
        ({**ONCE, "dead_letter_stream": "a/b"}, "/body/policy/dead_letter_stream"),
        ({**ONCE, "dead_letter_stream": "a\n"}, "/body/policy/dead_letter_stream"),
        ({**ONCE, "dead_letter_stream": "ü" * 129}, "/body/policy/dead_letter_stream"),
        ("strict", "/body/policy"),
        ([], "/body/policy"),
    ],
)
async def test_a_policy_that_cannot_be_is_refused_at_the_part_at_fault(
    shared: Live, method: str, policy: Any, pointer: str
) -> None:
    await shared.http.put(ORDERS)
    if method == "PATCH":
        await put(shared)

    answer = await shared.http.request(
        method,
        BILLING,
        json={"policy": policy},
    )

    assert refusal_of(answer) == (422, "invalid_request", pointer)
    if method == "PATCH":
        assert await policy_of(shared) == {}
    else:
        assert refusal_of(await shared.http.get(BILLING)) == (404, "group_not_found", "")


@pytest.mark.parametrize("delay_ms", ["5", -1, 1.5, True, 2**63, []])
async def test_a_delay_that_is_none_is_refused(shared: Live, delay_ms: Any) -> None:
    await prepare(shared, None, "1-0")
    await read_ids(shared)

    body = {"ids": ["1-0"], "delay_ms": delay_ms}
    answer = await shared.http.post(f"{BILLING}/nack", json=body)

    assert refusal_of(answer) == (422, "invalid_request", "/body/delay_ms")
    assert (await shared.group("orders", "billing"))["released"] == 0


@pytest.mark.parametrize("error", ["x" * 1_001, 5, ["x"], b"\xff".decode(errors="replace") * 1_001])
async def test_an_error_that_is_none_is_refused(shared: Live, error: Any) -> None:
    await prepare(shared, None, "1-0")
    await read_ids(shared)

    answer = await shared.http.post(f"{BILLING}/nack", json={"ids": ["1-0"], "error": error})

    assert refusal_of(answer) == (422, "invalid_request", "/body/error")
    assert (await shared.group("orders", "billing"))["released"] == 0


# What it does


# Redrive


async def test_dead_letters_are_sent_back_by_id_and_up_to_a_limit(shared: Live) -> None:
    await prepare(shared, ONCE, "1-0", "2-0", "3-0")
    await read_ids(shared)
    await nack(shared, "1-0", "2-0", "3-0")
    ids = [dead_letter["id"] for dead_letter in await dead_letters(shared)]

    chosen = await shared.http.post(REDRIVE, json={"ids": [ids[1], "9-9"]})
    oldest = await shared.http.post(REDRIVE, json={"limit": 1})

    assert [result["entry_id"] for result in chosen.json()["results"]] == ["2-0"]
    assert [result["entry_id"] for result in oldest.json()["results"]] == ["1-0"]
    assert [dead_letter["id"] for dead_letter in await dead_letters(shared)] == ids[2:]


@pytest.mark.parametrize(
    ("body", "status", "code", "pointer"),
    [
        ({"colour": 1}, 422, "invalid_request", "/body/colour"),
        ({"limit": 0}, 422, "invalid_request", "/body/limit"),
        ({"limit": "5"}, 422, "invalid_request", "/body/limit"),
        ({"limit": 10**9}, 422, "invalid_request", "/body/limit"),
        ({"ids": []}, 422, "invalid_request", "/body/ids"),
        ({"ids": "1-0"}, 422, "invalid_request", "/body/ids"),
        ({"ids": ["1-0", 5]}, 422, "invalid_request", "/body/ids/1"),
        ({"ids": ["x"]}, 400, "invalid_id", "/body/ids/0"),
        ([], 422, "invalid_request", "/body"),
    ],
)
async def test_a_redrive_that_makes_no_sense_is_refused(
    shared: Live, body: Any, status: int, code: str, pointer: str
) -> None:
    await put(shared, ONCE)

    assert refusal_of(await shared.http.post(REDRIVE, json=body)) == (status, code, pointer)


async def test_filters_are_shown_as_they_were_written(shared: Live) -> None:
    filters = [{"exact": {"v": "2-0"}}, {"not": {"present": "orderId"}}]
    await prepare(shared, {"filters": filters}, "1-0", "2-0", "3-0")
    assert (await policy_of(shared))["filters"] == filters
    assert await read_ids(shared) == ["2-0"]


@pytest.mark.parametrize(
    ("policy", "pointer"),
    [
        ({"filters": [{"exact": {"kind": 1}}]}, "/body/policy/filters/0/exact/kind"),
        ({"filters": [{"equals": {"kind": "x"}}]}, "/body/policy/filters/0/equals"),
        ({"filters": {"exact": {"kind": "x"}}}, "/body/policy/filters"),
        ({"filters": [{"exact": {"kind": "x" * 4096}}]}, "/body/policy/filters"),
        ({"filters": [{"present": "x"}] * 64}, "/body/policy/filters/63"),
        ({"filters": [{"present": "x"}] * 65}, "/body/policy/filters"),
        ({"paused_until_ms": -1}, "/body/policy/paused_until_ms"),
        ({"paused_until_ms": 2**63}, "/body/policy/paused_until_ms"),
        ({"rate_per_s": 0}, "/body/policy/rate_per_s"),
        ({"rate_per_s": 1_000_001}, "/body/policy/rate_per_s"),
        ({"rate_burst": 0}, "/body/policy/rate_burst"),
        ({"key_field": ""}, "/body/policy/key_field"),
        ({"key_field": "x" * 257}, "/body/policy/key_field"),
        ({"key_pending_max": 1_001}, "/body/policy/key_pending_max"),
        ({"key_ahead_max": 100_001}, "/body/policy/key_ahead_max"),
    ],
)
async def test_rules_that_make_no_sense_are_refused(
    shared: Live, policy: dict[str, Any], pointer: str
) -> None:
    problem = problem_in(await put(shared, policy))
    assert [error["pointer"] for error in problem["errors"]] == [pointer]


async def test_filters_that_are_nested_too_deep_are_refused(shared: Live) -> None:
    deep: dict[str, Any] = {"present": "x"}
    for _ in range(64):
        deep = {"not": deep}
    problem = problem_in(await put(shared, {"filters": [deep]}))
    assert "at most 64 conditions" in problem["detail"]
