"""REST client: what a worker asks, over HTTP, of whichever gateway answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from random import Random
from types import TracebackType
from typing import Any, Self

import httpx

from tests.ledger.client import CLAIM_IDLE_MS, TAKE_WAIT_MS, Entry, LostError, RefusedError

UNHEARD_SHARE = 0.02
"""Share of requests whose connection is closed before the answer is read."""

UNHEARD_S_MAX = 0.01
ANSWER_S_MAX = 5.0
"""Time for an answer, before the next gateway is asked."""

AWAY_S = 0.05
PAGE_ENTRIES = 1_000


class RestClient:
    """A `Client` of gateways of which one answers at a time."""

    def __init__(self, urls: Sequence[str], chance: Random) -> None:
        self._urls, self._chance = list(urls), chance
        self._http = httpx.AsyncClient(timeout=None)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._http.aclose()

    def now(self) -> int:
        return time.monotonic_ns()  # the processes of a machine have it in common

    async def take(self, stream: str, group: str, consumer: str, limit: int) -> list[Entry]:
        path = f"/v1/streams/{stream}/groups/{group}/read?consumer={consumer}"
        body = {"limit": limit, "wait_ms": TAKE_WAIT_MS, "claim_idle_ms": CLAIM_IDLE_MS}
        answer = await self.ask("POST", path, body)
        return [Entry(each["id"], each["fields"], each["deliveries"]) for each in answer["entries"]]

    async def row(self, stream: str, key: str) -> Entry:
        row = await self.ask("GET", f"/v1/streams/{stream}/table/{key}")
        return Entry(row["id"], row["fields"])

    async def commit(
        self, consumer: str | None, steps: Sequence[dict[str, Any]], key: str
    ) -> list[str]:
        headers = {"Idempotency-Key": key, "Idempotency-Producer": consumer or "writer"}
        body = {"consumer": consumer, "steps": steps}
        answer = await self.ask("POST", "/v1/commit", body, headers)
        return [entry_id for result in answer["results"] for entry_id in result.get("ids", ())]

    async def entries(self, stream: str) -> list[Entry]:
        """Return all entries of a stream."""
        found, after = list[Entry](), "0"
        while True:
            path = f"/v1/streams/{stream}/entries?after={after}&limit={PAGE_ENTRIES}"
            page = await self.ask_again("GET", path)
            if not page["entries"]:
                return found
            found += [Entry(each["id"], each["fields"]) for each in page["entries"]]
            after = page["next_after"]

    async def ask_again(self, method: str, path: str, body: object = None) -> Any:
        """Return the answer to a request that may be repeated, until there is one."""
        while True:
            try:
                return await self.ask(method, path, body)
            except LostError:
                continue

    async def ask(
        self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> Any:
        """Return the answer to a request.

        Raises:
            LostError: it was carried out, or not.
            RefusedError: it was not.
        """
        within_s = ANSWER_S_MAX
        if self._chance.random() < UNHEARD_SHARE:
            within_s = self._chance.random() * UNHEARD_S_MAX
        try:
            async with asyncio.timeout(within_s):
                url = self._urls[0] + path
                answer = await self._http.request(method, url, json=body, headers=headers)
        except (httpx.TransportError, TimeoutError):
            await self._turn()
            raise LostError from None
        if answer.status_code == httpx.codes.SERVICE_UNAVAILABLE:
            await self._turn()
            raise LostError
        if answer.is_error:
            raise RefusedError(answer.json()["code"])
        return answer.json()

    async def _turn(self) -> None:
        self._urls.append(self._urls.pop(0))
        await asyncio.sleep(AWAY_S)
