"""A backend that lacks abilities: what needs one is refused, and the rest works."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, TypeVar

import pytest

from headgate.app.backends.embedded import EmbeddedBackend
from headgate.app.backends.port import Ability
from headgate.app.settings import Settings
from headgate.engine.engine import Engine
from headgate.engine.errors import NotSupported
from headgate.engine.journal.storage import MemoryStorage
from headgate.engine.requests import Request
from headgate.engine.requests.bulk import CommitBatch, LastCommit, PlanRead, SplitRange
from headgate.engine.requests.deliveries import Redrive
from tests.api.conftest import Live, problem_in, refusal_of, running
from tests.arrow_bodies import ARROW

T = TypeVar("T")

WRITER = "/v1/bulk/writers/w"
CHUNK = f"{WRITER}/batches/1/partitions/0/attempts/a/chunks/0"


class PlainEngine(Engine):
    """An engine that takes only what every backend takes."""

    async def perform(self, request: Request[T]) -> T:
        if isinstance(request, PlanRead | SplitRange | CommitBatch | LastCommit):
            raise NotSupported(Ability.BULK)
        if isinstance(request, Redrive):
            raise NotSupported(Ability.POLICIES)
        return await super().perform(request)


class PlainBackend(EmbeddedBackend):
    """A backend without any ability."""

    def __init__(self) -> None:
        super().__init__(PlainEngine(MemoryStorage()))
        self.abilities = frozenset()
        self.claim_feed = self.journal = None


@pytest.fixture
async def plain() -> AsyncIterator[Live]:
    backend = await asyncio.to_thread(PlainBackend)
    async with running(Settings(), backend) as live:
        yield live


XLEN = ["XLEN", "orders"]
NEEDING: list[tuple[str, str, Any, str]] = [
    ("POST", "/v1/bulk/plan", {"cursors": [{"stream": "orders"}]}, "bulk"),
    ("GET", WRITER, None, "bulk"),
    ("PUT", CHUNK, None, "bulk"),
    ("GET", "/v1/events?match=a*", None, "patterns"),
    ("POST", "/v1/groups/billing/read?match=a*&consumer=me", None, "patterns"),
    ("PUT", "/v1/groups/billing/push?match=a*", {"url": "https://a.example/"}, "patterns"),
    ("POST", "/v1/commands", XLEN, "commands"),
    ("POST", "/v1/commands/pipeline", [XLEN], "commands"),
    ("POST", "/v1/commands/multi-exec", [XLEN], "commands"),
    ("GET", "/v1/commands/XLEN/orders", None, "commands"),
    ("POST", "/v1/streams/orders/groups/billing/dead-letters/redrive", {}, "policies"),
    ("PUT", "/v1/streams/orders/schema", {"schema": {}}, "schemas"),
    ("GET", "/v1/streams/orders/schema", None, "schemas"),
    ("DELETE", "/v1/streams/orders/schema", None, "schemas"),
]


async def test_what_needs_a_missing_ability_is_refused(plain: Live) -> None:
    ids = await plain.append("orders", "a")
    await plain.create_group("orders", "billing")
    read = await plain.read_group("orders", "billing", consumer="me")
    assert [entry["id"] for entry in read["entries"]] == ids
    assert (await plain.http.get("/v1/limits")).json()["abilities"] == []
    assert refusal_of(await plain.http.get("/v1/admin/journal"))[:2] == (404, "not_found")
    for method, url, body, ability in NEEDING:
        headers = {"content-type": ARROW} if url == CHUNK else {}
        answer = await plain.http.request(method, url, json=body, headers=headers)
        problem = problem_in(answer)
        assert (answer.status_code, problem["code"]) == (501, "not_supported"), url
        assert f"support {ability}," in problem["detail"]
