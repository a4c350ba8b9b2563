"""A writer, two dozen consumers, and an operator who lets gateways fail; rules hold meanwhile."""

from __future__ import annotations

import asyncio
import os
import random
import re
import signal
import sys
import time
from asyncio import FIRST_COMPLETED
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.conditions import until
from tests.processes.checker import (
    FAILING,
    violations,
    violations_on_receipt,
    violations_on_reconnect,
)
from tests.processes.consumers import (
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
from tests.processes.gateway import Gateway
from tests.processes.ledger import DeadLetter, Id, Ledger, Left, id_of
from tests.processes.wire import Wire

BATCH_ENTRIES = 100
BACKLOG_MAX = 400
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
SETTINGS = {
    "heartbeat_ms": 200,
    "redis_port": 0,
    "rewrite_bytes_min": 100_000,  # so that rewrites begin in the middle of things
    "rewrite_percentage": 60,
    "memory_bytes_max": 2**21,  # so that little stays in memory
}
OF_PROCESSES = ("engine", "worker", "SIGHUP")
"""Further endings of a gateway with workers: its engine or a worker is killed, or it reloads."""

RELOAD_S_MAX = 30.0
STARTED_ANEW = "process has ended and is restarted"

LOOK_S = 0.05
"""Interval between an operator's looks for the end of all work."""

RETRY_S = 0.02


class Chaos:
    """A gateway with its writer, its consumers and an operator who restarts it."""

    groups: Mapping[str, Any] = {
        GROUP: {"start": "0", "create_stream": True, "policy": POLICY},
        RECEIPTS: {"start": "0"},
        RETURNS: {"start": "0"},
    }
    """The groups that read all entries, with what they are made of."""

    settings: Mapping[str, Any] = SETTINGS
    expected: Sequence[str] = (STARTED_ANEW,)
    """Words of the errors that a gateway may log here."""

    def __init__(
        self, data_dir: Path, rng: random.Random, entry_count: int, restart_count: int = 4
    ) -> None:
        self.ledger = Ledger()
        self.place = Place()
        # The same entries for two other groups, whose consumers acknowledge nothing by request.
        self.receipts = self.ledger.of_another_group()
        self.returns = self.ledger.of_another_group()
        self.consumers = [
            *consumers(self.place, self.ledger, rng, Chances()),
            *listeners(self.place, self.receipts, self.returns, rng, Chances()),
        ]
        self.endings: Counter[str] = Counter()
        self.entry_count = entry_count
        self._restart_count = restart_count
        self._on_append: Callable[[], None] = lambda: None  # called before anything else is done
        self.data_dir = data_dir
        self.random = rng
        self._gateway: Gateway

    async def start(self) -> None:
        self._gateway = await Gateway.start(self.data_dir, self.settings)
        self.place.move_to(self._gateway)

    async def end(self, kind: str) -> None:
        self.note_restart()
        self.place.is_up.clear()
        self.endings[kind] += 1
        await finish(self._gateway, kind, self.expected)

    def note_restart(self) -> None:
        """Note that connections may end now, and that it is not their clients who end them."""
        self.ledger.restarts.append(self.ledger.tick())

    async def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Return the answer of a gateway, of the next one if this one is gone."""
        answer, _ = await self.ask_and_note(method, path, body, **headers)
        return answer

    async def ask_and_note(
        self, method: str, path: str, body: Any = None, **headers: str
    ) -> tuple[Any, int]:
        """Return the answer of a gateway, and when it was asked."""
        while True:
            place = await self.place_to_ask()
            asked_at = self.ledger.tick()
            try:
                return await ask_place(place, method, path, body, headers), asked_at
            except GONE:
                await asyncio.sleep(RETRY_S)

    async def place_to_ask(self) -> Place:
        """Return the place of a gateway, once it is there."""
        await self.place.is_up.wait()
        return self.place

    async def write(self) -> None:
        """Append in batches; one whose answer is lost is sent again under its key."""
        for start in range(0, self.entry_count, BATCH_ENTRIES):
            await self.until_read(start - BACKLOG_MAX)
            await self.until_due(start)
            numbers = range(start, start + BATCH_ENTRIES)
            values = [self.value(number) for number in numbers]
            body = [{"fields": self.fields(value)} for value in values]
            key = {"Idempotency-Key": str(start)}
            url = "/v1/streams/orders/entries/batch"
            answer, asked_at = await self.ask_and_note("POST", url, body, **key)
            self._on_append()
            ids = map(id_of, answer["ids"])
            self.ledger.append(dict(zip(ids, values, strict=True)), asked_at)

    async def until_due(self, count: int) -> None:
        """Return once so many entries may be there: some are kept for the failures to come."""

    def value(self, number: int) -> str:
        """Return the value of an entry: no other one has it."""
        return f"{FAILING} {number}" if self.random.random() < FAILING_SHARE else str(number)

    def fields(self, value: str) -> dict[str, str]:
        """Return the fields of an entry with a value."""
        return {"v": value}

    async def operate(self) -> None:
        """Restart the gateway as the work goes on, gently and not."""
        kinds = ["SIGKILL", "SIGTERM"] * (self._restart_count // 2)
        if Gateway.worker_count > 1:
            kinds += [*OF_PROCESSES] * (self._restart_count // 4)
        self.random.shuffle(kinds)
        for number, kind in enumerate(kinds, 1):
            await self.until_read(number * self.entry_count // (len(kinds) + 1))
            if kind in OF_PROCESSES:
                await self.end_process(kind)
            else:
                if kind == "SIGKILL" and self.random.random() < 0.5:
                    await self._killed_with_an_answer()
                await self.end(kind)
                await self.start()

    async def _killed_with_an_answer(self) -> None:
        """Kill the gateway with the next answer to the writer: what it says must be true already.

        There is none if everything is written.
        """
        gateway, appended_count = self._gateway, len(self.ledger.appended)
        self.note_restart()
        self._on_append = gateway.kill_now
        if appended_count < self.entry_count:
            await until(lambda: gateway.has_ended, RELOAD_S_MAX)
        self._on_append = lambda: None

    async def end_process(self, kind: str) -> None:
        """End some process of a gateway that goes on, and return once others are there."""
        self.note_restart()
        self.endings[kind] += 1
        before = self._gateway.process_ids()
        if kind == "SIGHUP":
            self._gateway.signal(signal.SIGHUP)
            replaced = {name: pid for name, pid in before.items() if name != "engine"}
        else:
            name = self.random.choice([name for name in before if name.startswith(kind)])
            replaced = {name: before[name]}
            os.kill(before[name], signal.SIGKILL)

        def is_over() -> bool:
            now = self._gateway.process_ids()
            is_whole = self._gateway.process_count() == len(before)
            return is_whole and all(now.get(name, pid) != pid for name, pid in replaced.items())

        await until(is_over, RELOAD_S_MAX)
        self.note_restart()

    async def until_read(self, count: int) -> None:
        """Return once the group has been given so many entries, or they are lost."""
        while count > 0 and await self._read_count() < count:
            await asyncio.sleep(LOOK_S)

    async def _read_count(self) -> int:
        appended_count = len(self.ledger.appended)
        lag = (await self.ask("GET", GROUP))["lag"]
        return 0 if lag is None else appended_count - int(lag)

    async def work(self) -> None:
        """Return once everything is appended, all restarts are over, and nothing is left to do."""
        await asyncio.gather(self.write(), self.operate())
        for name in self.groups:
            while (group := await self.ask("GET", name))["pending"] or group["lag"] != 0:
                await asyncio.sleep(LOOK_S)

    async def left(self) -> Left:
        """Look at the remainder, now that nobody reads."""
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
            kept=await self._kept(),
        )

    def violations(self, left: Left) -> list[str]:
        """Return the violations of what each group promises."""
        return [
            *violations(self.ledger, left, max_deliveries=MAX_DELIVERIES),
            *violations_on_receipt(self.receipts, left.kept),
            *violations_on_reconnect(self.returns, left.kept),
        ]

    async def is_quiet(self) -> bool:
        """Tell whether no connection is open any more, and no read is blocked."""
        return await self.open_count() == (0, 0)

    async def open_count(self) -> tuple[int, int]:
        """Return the numbers of blocked reads and of open connections."""
        text = await self.ask("GET", "/metrics")
        waiters = re.findall(r"^headgate_waiters (\S+)$", text, re.MULTILINE)
        connections = re.findall(r"^headgate_connections{.*} (\S+)$", text, re.MULTILINE)
        return int(float(waiters[0])), int(sum(map(float, connections)))

    async def _dead_letters(self) -> list[DeadLetter]:
        dead_letters: list[DeadLetter] = []
        async for _, fields in self._entries(DEAD):
            origin, count = id_of(fields["_id"]), int(fields["_deliveries"])
            dead_letters.append(DeadLetter(origin, fields["v"], count))
        return dead_letters

    async def _kept(self) -> dict[Id, str]:
        return {entry_id: fields["v"] async for entry_id, fields in self._entries("orders")}

    async def _entries(self, stream: str) -> AsyncIterator[tuple[Id, dict[str, str]]]:
        after = "0"
        while True:
            url = f"/v1/streams/{stream}/entries?after={after}&limit=1000"
            page = await self.ask("GET", url)
            for entry in page["entries"]:
                yield id_of(entry["id"]), entry["fields"]
            if not page["entries"]:
                return
            after = page["next_after"]


async def ask_place(
    place: Place, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
) -> Any:
    """Return the answer of the gateway that is at a place."""
    wire = await Wire.open(place.url)
    try:
        return await wire.request(method, path, body, headers)
    finally:
        wire.close()


async def finish(gateway: Gateway, kind: str, expected: Sequence[str] = (STARTED_ANEW,)) -> None:
    """End a gateway; it has met no error but those that are expected."""
    await (gateway.kill() if kind == "SIGKILL" else gateway.stop())
    errors = [line for line in gateway.complaints() if not any(each in line for each in expected)]
    assert not errors, errors


def rng_of_test() -> random.Random:
    """Return the random generator of a test; its seed is printed."""
    seed = int(os.environ.get("HEADGATE_TEST_SEED") or random.randrange(2**32))
    sys.stdout.write(f"HEADGATE_TEST_SEED={seed} makes the same choices\n")
    return random.Random(seed)


async def work_through(chaos: Chaos, *, within_s: float, leave_s: float) -> Left:
    """Let everything happen, check that all promises were kept, and return what is left.

    Args:
        chaos: is started here, and not ended.
        within_s: how long the work may take.
        leave_s: how long gateways may take to notice that nobody is there any more.
    """
    started = time.perf_counter()
    await chaos.start()
    for group, body in chaos.groups.items():
        await chaos.ask("PUT", group, body)
    consuming = [asyncio.create_task(consumer.run()) for consumer in chaos.consumers]
    working = asyncio.create_task(chaos.work())
    try:
        async with asyncio.timeout(within_s):
            done, _ = await asyncio.wait([working, *consuming], return_when=FIRST_COMPLETED)
            for ended in done:
                await ended  # a consumer only ends by failing
    finally:
        working.cancel()
        for task in consuming:
            task.cancel()
        await asyncio.gather(working, *consuming, return_exceptions=True)
    seconds = time.perf_counter() - started
    with suppress(TimeoutError):  # what is left then is a violation
        async with asyncio.timeout(leave_s):
            while not await chaos.is_quiet():
                await asyncio.sleep(LOOK_S)
    left = await chaos.left()
    report(chaos, left, seconds)
    wrong = chaos.violations(left)
    assert not wrong, "\n".join(wrong)
    return left


async def survive(chaos: Chaos, leave_s: float = 10.0) -> None:
    """Let everything happen; a gateway that is killed after it has the same as before."""
    left = await work_through(chaos, within_s=60 + chaos.entry_count / 50, leave_s=leave_s)
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
    sys.stdout.write(
        f"{len(ledger.appended)} entries, {len(ledger.deliveries)} deliveries, "
        f"{len(left.dead_letters)} dead letters, {seconds:.0f} s\n"
        f"restarts: {dict(chaos.endings)}; consumers: {dict(happened)}\n"
        f"outcomes: {dict(outcomes)}, {lost} answers lost\n"
    )


def is_chaos(chaos: Chaos) -> bool:
    """Tell whether there was something to survive. Chance makes about seven times as much of it."""
    happened = sum((consumer.happened for consumer in chaos.consumers), Counter[str]())
    ways = ("killed", "killed_in_ack", "killed_waiting", "stalled")
    return (
        len(chaos.ledger.appended) == chaos.entry_count
        and sum(happened[way] for way in ways) > chaos.entry_count / 500
    )
