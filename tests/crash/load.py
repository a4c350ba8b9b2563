"""Load: clients of one stream and one of its groups, with notes of requests and answers.

A client goes on until its gateway is gone. Whatever a gateway answers must be a success: nothing
here is refused by a gateway that works.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import httpx

from tests.crash.history import (
    Appending,
    History,
    Id,
    Pending,
    Settling,
    State,
    Taking,
    id_of,
    text_of,
)

STREAM, GROUP = "/v1/streams/orders", "/v1/streams/orders/groups/billing"
WRITERS = ["w0", "w1"]
KEYED_WRITERS = ["k0", "k1"]
CONSUMERS = ["c0", "c1", "c2"]
PAGE = 1000
PENDING_MAX = 10_000
PAD_BYTES = 10_000
"""Padding that makes a batch take a while to be written."""

Step = Callable[[], Awaitable[None]]
"""One request of a client."""


class Load:
    """All clients, from one life of the gateway to the next."""

    def __init__(self, history: History, rng: random.Random) -> None:
        self._history = history
        self._random = rng
        self._sent_count = 0
        self._unanswered: dict[str, Appending] = {}  # appends under a key, to be sent again
        self._held: dict[str, list[Id]] = {consumer: [] for consumer in CONSUMERS}
        self.answer_count = 0
        self.repeat_count = 0  # answers that came from an idempotency key
        self.on_answer: Callable[[], None] = lambda: None  # called before anything else is done
        self.may_be_unavailable = False  # the engine may be away, while the gateway is there
        self.is_over = False  # then each client ends after its request
        self._http: httpx.AsyncClient

    async def run(self, url: str) -> None:
        """Run all clients until the gateway is gone."""
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(base_url=url, timeout=30, limits=limits) as self._http:
            await asyncio.gather(
                *(self._until_gone(partial(self._append, who)) for who in WRITERS),
                *(self._until_gone(partial(self._append_once, who)) for who in KEYED_WRITERS),
                *(self._until_gone(partial(self._consume, who)) for who in CONSUMERS),
                self._until_gone(self._rewrite),
            )

    async def _until_gone(self, step: Step) -> None:
        try:
            while not self.is_over:
                await step()
        except httpx.TransportError:
            return

    async def _post(self, path: str, body: Any, **options: Any) -> httpx.Response:
        answer = await self._http.post(path, json=body, **options)
        if self.may_be_unavailable and answer.status_code == 503:
            raise httpx.ReadError(answer.text)  # it may have happened
        assert answer.is_success, answer.text
        self.answer_count += 1
        self.on_answer()
        return answer

    # Writers

    async def _append(self, client: str) -> None:
        append = self._new_append(client)
        self._history.appends.append(append)
        await self._send(append)

    async def _append_once(self, client: str) -> None:
        append = self._unanswered.get(client)
        if append is None:
            append = self._unanswered[client] = self._new_append(client)
            self._history.appends.append(append)
        await self._send(append, key_of(append))
        if append.times_answered > 1 or self._random.random() > 0.1:  # at times, send it again
            del self._unanswered[client]

    def _new_append(self, client: str) -> Appending:
        length = self._random.choice([1, 1, 2, 5, 40])
        self._sent_count += 1
        values = [f"{self._sent_count}.{place}" for place in range(length)]
        return Appending(client, values, pad_bytes=self._random.choice([0] * 19 + [PAD_BYTES]))

    async def _send(self, append: Appending, headers: dict[str, str] | None = None) -> None:
        answer = await self._post(*request_of(append), headers=headers)
        self._note_appended(append, ids_of(answer.json()))
        self.repeat_count += answer.headers.get("Idempotent-Replayed") == "true"

    def _note_appended(self, append: Appending, ids: list[Id]) -> None:
        assert append.ids in (None, ids), f"{append} was answered with {ids}"
        append.times_answered += 1
        if append.ids is None:
            append.ids = ids
            self._history.answered.setdefault(append.client, []).extend(ids)

    # Consumers

    async def _consume(self, consumer: str) -> None:
        held = self._held[consumer]
        others = [entry_id for who in CONSUMERS if who != consumer for entry_id in self._held[who]]
        choices: list[tuple[Step, int]] = [(partial(self._read, consumer), 6)]
        if held:
            choices.append((partial(self._settle, consumer, "ack"), 6 + len(held) // 4))
            choices.append((partial(self._settle, consumer, "nack"), 1))
        if others:
            choices.append((partial(self._claim, consumer, others), 2))
        steps, weights = zip(*choices, strict=True)
        await self._random.choices(steps, weights)[0]()

    async def _read(self, consumer: str) -> None:
        taking = Taking(consumer, self._history.tick())
        self._history.takings.append(taking)
        body = {"limit": self._random.choice([1, 5, 20]), "wait_ms": self._random.choice([0, 50])}
        answer = await self._post(f"{GROUP}/read", body, params={"consumer": consumer})
        self._note_taken(taking, answer.json()["entries"])

    async def _claim(self, consumer: str, ids: list[Id]) -> None:
        chosen = self._random.sample(ids, min(len(ids), 4))
        taking = Taking(consumer, self._history.tick(), chosen)
        self._history.takings.append(taking)
        body = {"ids": list(map(text_of, chosen)), "min_idle_ms": 0}
        answer = await self._post(f"{GROUP}/claim", body, params={"consumer": consumer})
        self._note_taken(taking, answer.json()["entries"])

    def _note_taken(self, taking: Taking, entries: list[dict[str, Any]]) -> None:
        taking.deliveries = {id_of(entry["id"]): entry["deliveries"] for entry in entries}
        taking.answered_at = self._history.tick()
        self._held[taking.consumer] += taking.deliveries

    async def _settle(self, consumer: str, kind: str) -> None:
        held = self._held[consumer]
        ids = list(dict.fromkeys(self._random.sample(held, min(len(held), 12))))
        settling = Settling(consumer, kind, ids, self._history.tick())
        self._history.settlings.append(settling)
        body = {"ids": list(map(text_of, ids))}
        answer = await self._post(f"{GROUP}/{kind}", body, params={"consumer": consumer})
        for result in answer.json()["results"]:
            settling.outcomes[id_of(result["id"])] = result["outcome"]
        settling.answered_at = self._history.tick()
        for entry_id, outcome in settling.outcomes.items():
            if outcome == "acked":
                self._history.acked[entry_id] = settling.answered_at
        self._held[consumer] = [entry_id for entry_id in held if entry_id not in settling.outcomes]

    # Operators

    async def _rewrite(self) -> None:
        """Replace the journal's history, at times while that is going on already."""
        await self._http.get("/healthz")
        if self._random.random() < 0.1:
            await self._post("/v1/admin/rewrite", {})

    # What there is

    async def look(self, url: str) -> State:
        """Return the state of the stream and the group; consumers go on from there."""
        async with httpx.AsyncClient(base_url=url, timeout=30) as http:
            state = State(await _entries(http), *await _group(http))
        for consumer in CONSUMERS:
            pending = state.pending.items()
            self._held[consumer] = [
                entry_id for entry_id, held in pending if held.consumer == consumer
            ]
        return state


def request_of(append: Appending) -> tuple[str, Any]:
    """Return the path and the body of an append."""
    pad = "x" * append.pad_bytes
    bodies = [{"fields": {"v": value, "pad": pad}} for value in append.values]
    if len(bodies) == 1:
        return f"{STREAM}/entries", bodies[0]
    return f"{STREAM}/entries/batch", bodies


def key_of(append: Appending) -> dict[str, str]:
    """Return the headers under which an append has an effect once."""
    return {"Idempotency-Key": append.values[0], "Idempotency-Producer": append.client}


def ids_of(answer: dict[str, Any]) -> list[Id]:
    """Return the ids that an append was answered with."""
    return list(map(id_of, answer["ids"] if "ids" in answer else [answer["id"]]))


async def begin(url: str) -> None:
    """Make the stream and the group."""
    async with httpx.AsyncClient(base_url=url) as http:
        answer = await http.put(GROUP, json={"start": "0", "create_stream": True})
        assert answer.status_code == 201, answer.text


async def _entries(http: httpx.AsyncClient) -> dict[Id, str]:
    entries: dict[Id, str] = {}
    after = "0"
    while True:
        answer = await http.get(f"{STREAM}/entries", params={"after": after, "limit": PAGE})
        assert answer.status_code == 200, answer.text
        page = answer.json()
        entries |= {id_of(entry["id"]): entry["fields"]["v"] for entry in page["entries"]}
        if not page["entries"]:
            return entries
        after = page["next_after"]


async def _group(http: httpx.AsyncClient) -> tuple[dict[Id, Pending], Id]:
    answer = await http.get(f"{GROUP}/pending", params={"limit": PENDING_MAX})
    assert answer.status_code == 200, answer.text
    lines = answer.json()["pending"]
    assert len(lines) < PENDING_MAX
    pending = {id_of(line["id"]): Pending(line["consumer"], line["deliveries"]) for line in lines}
    group = (await http.get(GROUP)).json()
    return pending, id_of(group["last_id"])
