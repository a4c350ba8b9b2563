"""Load of a gateway whose answers wait for the bucket: policies and keyed appends as well."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import httpx

from tests.crash.history import Appending, History, Id
from tests.crash.load import GROUP, Load, ids_of, key_of, request_of


class BucketLoad(Load):
    """All clients of a gateway whose answers wait for the bucket."""

    def __init__(self, history: History, rng: random.Random) -> None:
        super().__init__(history, rng)
        self.may_be_unavailable = True
        self._deliveries_max = [1000]  # of the policy: what was answered last, and sent since then
        self._keyed: dict[str, Appending] = {}  # the last of each client that was answered

    async def run(self, url: str) -> None:
        """Run all clients until the gateway is gone."""
        async with httpx.AsyncClient(base_url=url, timeout=30) as self._operator:
            await asyncio.gather(super().run(url), self._until_gone(self._change_policy))

    async def _change_policy(self) -> None:
        wanted = self._deliveries_max[-1] + 1
        self._deliveries_max.append(wanted)
        answer = await self._operator.patch(GROUP, json=_policy_of(wanted))
        if answer.status_code == 503:
            raise httpx.ReadError(answer.text)
        assert answer.is_success, answer.text
        del self._deliveries_max[:-1]

    def _note_appended(self, append: Appending, ids: list[Id]) -> None:
        super()._note_appended(append, ids)
        if append.client.startswith("k"):
            self._keyed[append.client] = append

    async def lost(self, url: str) -> list[str]:
        """Return the losses, besides those of entries and deliveries."""
        async with httpx.AsyncClient(base_url=url, timeout=30) as http:
            policy = (await http.get(GROUP)).json()["policy"]
            wrong = []
            if policy["max_deliveries"] not in self._deliveries_max:
                wrong.append(f"the policy is {policy}, and {self._deliveries_max} was answered")
            for append in self._keyed.values():
                path, body = request_of(append)
                answer = await http.post(path, json=body, headers=key_of(append))
                if not answer.is_success or ids_of(answer.json()) != append.ids:
                    wrong.append(f"{append} is answered with {answer.text} when it is sent again")
        self._deliveries_max = [policy["max_deliveries"]]
        return wrong


async def begin(url: str) -> None:
    """Make the stream and the group."""
    async with httpx.AsyncClient(base_url=url, timeout=30) as http:
        body = {"start": "0", "create_stream": True, **_policy_of(1000)}
        answer = await http.put(GROUP, json=body)
        assert answer.status_code == 201, answer.text


def _policy_of(deliveries_max: int) -> dict[str, Any]:
    policy = {"max_deliveries": deliveries_max, "dead_letter_stream": "orders.dead"}
    return {"policy": policy}
