"""Events of somebody with a key: the rights and limits of an append hold for them."""

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from headgate.app.auth.grants import Grant, UsageLimits, Verb
from tests.api.auth.secured import Secured, secured
from tests.api.cloud_events.sent import AS_BATCH, BATCH, ENTRIES, STRUCTURED, binary, event
from tests.api.conftest import refusal_of

ALL = Grant(streams=["*"], do=[Verb.READ, Verb.APPEND, Verb.MANAGE])
FORBIDDEN = (403, "forbidden", "")


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Secured]:
    async with secured(tmp_path) as running:
        await running.admin.put("/v1/streams/orders")
        yield running


def appends_of(http: httpx.AsyncClient) -> list[Any]:
    """Return an append of one event in each mode."""
    return [
        partial(http.post, ENTRIES, headers=binary("1")),
        partial(http.post, ENTRIES, json=event("2"), headers={"Content-Type": STRUCTURED}),
        partial(http.post, ENTRIES, json=[event("3")], headers={"Content-Type": BATCH}),
    ]


async def test_events_need_the_right_to_append(gateway: Secured) -> None:
    reading = Grant(streams=["*"], do=[Verb.READ])
    key = await gateway.key(reading, Grant(streams=["news"], do=[Verb.APPEND]))
    async with gateway.client(None) as nobody, gateway.client(key) as reader:
        unknown = [await append() for append in appends_of(nobody)]
        refused = [await append() for append in appends_of(reader)]
        read = await reader.get(ENTRIES, headers=AS_BATCH)

    assert [answer.status_code for answer in unknown] == [401] * 3
    assert [refusal_of(answer) for answer in refused] == [FORBIDDEN] * 3
    assert read.json() == []


@pytest.mark.parametrize("limit", ["entries_per_s_max", "bytes_per_s_max"])
async def test_each_event_counts_as_an_entry(gateway: Secured, limit: str) -> None:
    key = await gateway.key(ALL, limits=UsageLimits(**{limit: 1024}))
    async with gateway.client(key) as http:
        if limit == "bytes_per_s_max":
            taken = await http.post(ENTRIES, content=b"\xff" * 100_000, headers=binary("1"))
        else:
            events = [event(str(number)) for number in range(5000)]
            taken = await http.post(ENTRIES, json=events, headers={"Content-Type": BATCH})
        refused = await http.post(ENTRIES, headers=binary("new"))
    assert taken.status_code == 201, taken.text
    assert (refused.status_code, refused.json()["code"]) == (429, "rate_limited")


async def test_an_event_of_somebody_else_is_another(gateway: Secured) -> None:
    """Keys belong to a principal, unless it may append to all streams."""
    statuses = []
    for name in ("ana", "ben"):
        key = await gateway.key(Grant(streams=["orders"], do=[Verb.APPEND]), name=name)
        async with gateway.client(key) as http:
            statuses.append((await http.post(ENTRIES, headers=binary("1"))).status_code)

    assert statuses == [201, 201]
