"""Two dozen consumers over three transports, killed and stalled, on a gateway that is restarted.

HEADGATE_TEST_ENTRIES says how many entries are appended meanwhile, HEADGATE_TEST_SEED with which
choices; what happens at the same time as what is up to the machine all the same.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import time
from asyncio import FIRST_COMPLETED
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.crash.chaos_checker import (
    FAILING,
    violations,
    violations_on_receipt,
    violations_on_reconnect,
)
from tests.crash.consumers import (
    CLAIM_IDLE_MS,
    GONE,
    GROUP,
    RECEIPTS,
    RETURNS,
    Chances,
    Place,
    consumers,
    listeners,
)
from tests.crash.gateway import Gateway
from tests.crash.history import id_of
from tests.crash.ledger import DeadLetter, Ledger, Left
from tests.crash.wire import Wire

ENTRIES = int(os.environ.get("HEADGATE_TEST_ENTRIES", "50000"))
ENTRIES_WITH_KEY = 3000
BATCH_ENTRIES = 100
BACKLOG_MAX = 1500
"""A writer that is so many entries ahead waits for the consumers."""

FAILING_SHARE = 0.02
MAX_DELIVERIES = 4
DEAD = "orders.dead"
POLICY = {
    "claim_idle_ms": CLAIM_IDLE_MS,
    "max_deliveries": MAX_DELIVERIES,
    "dead_letter_stream": DEAD,
    "backoff_ms": [10, 20, 40],
}
SETTINGS = {"log_level": "warning", "heartbeat_ms": 200}
LEAVE_S = 10.0
"""How long the gateway may take to notice that nobody is there any more."""

LOOK_S = 0.05
"""How often an operator looks whether all is done."""


pytestmark = pytest.mark.usefixtures("credentials")


@pytest.fixture
def rng() -> random.Random:
    seed = int(os.environ.get("HEADGATE_TEST_SEED") or random.randrange(2**32))
    print(f"HEADGATE_TEST_SEED={seed} makes the same choices")
    return random.Random(seed)


class Chaos:
    """A gateway with its writer, its consumers and an operator who restarts it."""

    def __init__(self, data_dir: Path, rng: random.Random, entry_count: int) -> None:
        self.ledger = Ledger()
        self.place = Place()
        # The same entries for two other groups, whose consumers acknowledge nothing by request.
        self.receipts = Ledger(appended=self.ledger.appended)
        self.returns = Ledger(appended=self.ledger.appended)
        self.consumers = [
            *consumers(self.place, self.ledger, rng, Chances()),
            *listeners(self.place, self.receipts, self.returns, rng, Chances()),
        ]
        self.endings: Counter[str] = Counter()
        self.entry_count = entry_count
        self._restart_count = 4 if entry_count <= 5000 else 12
        self._data_dir = data_dir
        self._random = rng
        self._gateway: Gateway

    async def start(self) -> None:
        self._gateway = await Gateway.start(self._data_dir, SETTINGS)
        self.place.url = self._gateway.url
        self.place.is_up.set()

    async def end(self, kind: str) -> None:
        for ledger in (self.ledger, self.receipts, self.returns):
            ledger.restarts.append(ledger.tick())
        self.place.is_up.clear()
        self.endings[kind] += 1
        await (self._gateway.kill() if kind == "SIGKILL" else self._gateway.stop())
        assert not [line for line in self._gateway.log_lines if "ERROR" in line], (
            self._gateway.log_lines
        )

    async def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Return the answer of a gateway, of the next one if this one is gone."""
        while True:
            await self.place.is_up.wait()
            try:
                wire = await Wire.open(self.place.url)
                try:
                    return await wire.request(method, path, body, headers)
                finally:
                    wire.close()
            except GONE:
                await asyncio.sleep(0)

    async def write(self) -> None:
        """Append in batches; one whose answer is lost is sent again under its key."""
        for start in range(0, self.entry_count, BATCH_ENTRIES):
            await self._until_read(start - BACKLOG_MAX)
            values = [self._value(number) for number in range(start, start + BATCH_ENTRIES)]
            body = [{"fields": {"v": value}} for value in values]
            key = {"Idempotency-Key": str(start)}
            answer = await self.ask("POST", "/v1/streams/orders/entries/batch", body, **key)
            self.ledger.appended.update(zip(map(id_of, answer["ids"]), values, strict=True))

    def _value(self, number: int) -> str:
        return f"{FAILING} {number}" if self._random.random() < FAILING_SHARE else str(number)

    async def operate(self) -> None:
        """Restart the gateway as the work goes on, gently and not."""
        kinds = ["SIGKILL", "SIGTERM"] * (self._restart_count // 2)
        self._random.shuffle(kinds)
        for number, kind in enumerate(kinds, 1):
            await self._until_read(number * self.entry_count // (self._restart_count + 1))
            await self.end(kind)
            await self.start()

    async def _until_read(self, count: int) -> None:
        """Return once the group has been given so many entries."""
        while count > 0 and (await self.ask("GET", GROUP))["entries_read"] < count:
            await asyncio.sleep(LOOK_S)

    async def work(self) -> None:
        """Return once everything is appended, all restarts are over, and nothing is left to do."""
        await asyncio.gather(self.write(), self.operate())
        for name in (GROUP, RECEIPTS, RETURNS):
            while (group := await self.ask("GET", name))["pending"] or group["lag"] != 0:
                await asyncio.sleep(LOOK_S)

    async def left(self) -> Left:
        """Look what is there, now that nobody reads."""
        group = await self.ask("GET", GROUP)
        known = await self.ask("GET", f"{GROUP}/consumers")
        waiters, connections = await self.open_count()
        return Left(
            pending_count=group["pending"],
            lag=group["lag"],
            waiter_count=waiters,
            connection_count=connections,
            temporary_consumers=[
                consumer["name"]
                for consumer in known["consumers"]
                if consumer["name"].startswith("temporary-")
            ],
            dead_letters=await self._dead_letters(),
        )

    async def open_count(self) -> tuple[int, int]:
        """Return how many reads are blocked, and how many connections are open."""
        text = await self.ask("GET", "/metrics")
        waiters = re.findall(r"^headgate_waiters (\S+)$", text, re.MULTILINE)
        connections = re.findall(r"^headgate_connections{.*} (\S+)$", text, re.MULTILINE)
        return int(float(waiters[0])), int(sum(map(float, connections)))

    async def _dead_letters(self) -> list[DeadLetter]:
        dead_letters: list[DeadLetter] = []
        after = "0"
        while True:
            url = f"/v1/streams/{DEAD}/entries?after={after}&limit=1000"
            page = await self.ask("GET", url)
            for entry in page["entries"]:
                fields = entry["fields"]
                origin, count = id_of(fields["_id"]), int(fields["_deliveries"])
                dead_letters.append(DeadLetter(origin, fields["v"], count))
            if not page["entries"]:
                return dead_letters
            after = page["next_after"]


@pytest.mark.parametrize(
    "entry_count", [ENTRIES, pytest.param(ENTRIES_WITH_KEY, marks=pytest.mark.with_key)]
)
async def test_every_entry_is_settled_once_whatever_becomes_of_its_consumers(
    tmp_path: Path, rng: random.Random, entry_count: int
) -> None:
    chaos = Chaos(tmp_path, rng, entry_count)
    started = time.perf_counter()
    await chaos.start()
    body = {"start": "0", "create_stream": True, "policy": POLICY}
    await chaos.ask("PUT", GROUP, body)
    for group in (RECEIPTS, RETURNS):
        await chaos.ask("PUT", group, {"start": "0"})
    consuming = [asyncio.create_task(consumer.run()) for consumer in chaos.consumers]
    working = asyncio.create_task(chaos.work())
    try:
        async with asyncio.timeout(60 + entry_count / 200):
            done, _ = await asyncio.wait([working, *consuming], return_when=FIRST_COMPLETED)
            for ended in done:
                await ended  # a consumer only ends by failing
    finally:
        working.cancel()
        for task in consuming:
            task.cancel()
        await asyncio.gather(working, *consuming, return_exceptions=True)
    seconds = time.perf_counter() - started
    async with asyncio.timeout(LEAVE_S):
        while await chaos.open_count() != (0, 0):
            await asyncio.sleep(LOOK_S)
    left = await chaos.left()
    report(chaos, left, seconds)
    assert violations(chaos.ledger, left, max_deliveries=MAX_DELIVERIES) == []
    assert violations_on_receipt(chaos.receipts) == []
    assert violations_on_reconnect(chaos.returns) == []

    await chaos.end("SIGKILL")
    await chaos.start()
    assert await chaos.left() == left
    await chaos.end("SIGTERM")
    assert is_chaos(chaos)


def report(chaos: Chaos, left: Left, seconds: float) -> None:
    ledger = chaos.ledger
    happened = sum((consumer.happened for consumer in chaos.consumers), Counter[str]())
    outcomes = Counter(what for settling in ledger.settlings for what in settling.outcomes.values())
    lost = sum(settling.answered_at is None for settling in ledger.settlings)
    print(
        f"{len(ledger.appended)} entries, {len(ledger.deliveries)} deliveries, "
        f"{len(left.dead_letters)} dead letters, {seconds:.0f} s\n"
        f"restarts: {dict(chaos.endings)}; consumers: {dict(happened)}\n"
        f"outcomes: {dict(outcomes)}, {lost} answers lost"
    )


def is_chaos(chaos: Chaos) -> bool:
    """Tell whether there was something to survive."""
    happened = sum((consumer.happened for consumer in chaos.consumers), Counter[str]())
    return (
        len(chaos.ledger.appended) == chaos.entry_count
        and happened["killed"] + happened["killed_in_ack"] + happened["killed_waiting"] > 10
        and happened["stalled"] > 0
    )
