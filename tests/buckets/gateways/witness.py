"""Witness: a client that appends to one life of a gateway, and notes what was answered when."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from typing import Any, NamedTuple

import httpx

from tests.processes.gateway import Gateway
from tests.processes.ledger import Id, id_of

STREAM = "/v1/streams/witnessed"
_PAUSE_S = 0.01
_NUMBERS = count(1)


class Acked(NamedTuple):
    """An append that was acknowledged, with its times by `time.monotonic`."""

    value: str
    entry_id: Id
    life: str  # the URL of the gateway: each life has a port of its own
    sent_s: float
    answered_s: float


class Refused(NamedTuple):
    """An append that was refused."""

    status: int
    retry_after: str | None
    sent_s: float
    answered_s: float


class Witness:
    """Appends to gateways, each for as long as it lives."""

    def __init__(self, pad_bytes: int = 0) -> None:
        self.acked: list[Acked] = []
        self.refused: list[Refused] = []
        self._pad = random.randbytes(pad_bytes // 2).hex()

    async def run(self, gateway: Gateway) -> None:
        """Append one entry after the other until the gateway is gone."""
        async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as http:
            with suppress(httpx.TransportError):
                while True:
                    await self._append(http, gateway.url)

    async def _append(self, http: httpx.AsyncClient, life: str) -> None:
        value, sent_s = str(next(_NUMBERS)), time.monotonic()
        body = {"fields": {"v": value, "pad": self._pad}}
        answer = await http.post(f"{STREAM}/entries", json=body)
        answered_s = time.monotonic()
        if answer.is_success:
            entry_id = id_of(answer.json()["id"])
            self.acked.append(Acked(value, entry_id, life, sent_s, answered_s))
        else:
            retry_after = answer.headers.get("Retry-After")
            self.refused.append(Refused(answer.status_code, retry_after, sent_s, answered_s))
            await asyncio.sleep(_PAUSE_S)


async def witnessed(url: str, after: str = "0") -> dict[Id, str]:
    """Return the entries of a gateway, behind an id."""
    entries: dict[Id, str] = {}
    async with httpx.AsyncClient(base_url=url, timeout=60) as http:
        while (page := await page_of(http, after))["entries"]:
            entries |= {id_of(entry["id"]): entry["fields"]["v"] for entry in page["entries"]}
            after = page["next_after"]
    return entries


async def page_of(http: httpx.AsyncClient, after: str, limit: int = 1000) -> dict[str, Any]:
    """Return the answer to a reader behind an id."""
    answer = await http.get(f"{STREAM}/entries", params={"after": after, "limit": limit})
    if answer.status_code == 404:
        return {"entries": [], "gap": None}
    assert answer.is_success, answer.text
    page: dict[str, Any] = answer.json()
    return page


def lost(acked: Sequence[Acked], entries: dict[Id, str]) -> list[Acked]:
    """Return the acknowledged appends that are not there."""
    return [each for each in acked if entries.get(each.entry_id) != each.value]
