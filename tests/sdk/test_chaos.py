"""Workers in two languages on a gateway that is killed, over a network that is cut.

HEADGATE_TEST_ENTRIES says how many entries are appended (by hand: 50000), HEADGATE_TEST_ROUNDS how
often the gateway is killed; the network is cut twice as often.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from pathlib import Path

import headgate
from tests.processes.chaos import rng_of_test
from tests.processes.gateway import Gateway
from tests.sdk.cut_way import Proxy
from tests.sdk.typescript import program_folder
from tests.sdk.workshop import tool

ENTRIES = int(os.environ.get("HEADGATE_TEST_ENTRIES", "1000"))
ROUNDS = int(os.environ.get("HEADGATE_TEST_ROUNDS", "2"))
BATCH = 50
POISON_EVERY = 100
POLICY: headgate.Policy = {
    "max_deliveries": 8,
    "dead_letter_stream": "chaos.dead",
    "claim_idle_ms": 20_000,
}


class Chaos:
    """A gateway behind a way that is cut, its workers, and what they have done."""

    def __init__(self, data_dir: Path, proxy: Proxy) -> None:
        self.data_dir = data_dir
        self.proxy = proxy
        self.pick = rng_of_test()
        self.appended: dict[str, bool] = {}  # by id: nobody can work it off
        self.done: dict[str, Counter[str]] = {"Python": Counter(), "TypeScript": Counter()}
        self.has_appended = asyncio.Event()
        self.stop = asyncio.Event()
        self._gateway: Gateway | None = None

    async def start(self) -> None:
        self._gateway = await Gateway.start(self.data_dir)
        self.proxy.target = "127.0.0.1", int(self._gateway.url.rpartition(":")[2])

    async def kill(self) -> None:
        assert self._gateway is not None
        self.proxy.target = None
        self._gateway.kill_now()
        await self._gateway.until_end()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.proxy.port}"

    @property
    def have_both_worked(self) -> bool:
        return all(self.done.values())

    async def append(self, hg: headgate.AsyncClient) -> None:
        """Append all entries; the first one, and others later, are such that nobody can.

        There are more if a language takes so long to start that the other would do them all.
        """
        while len(self.appended) < ENTRIES or not self.have_both_worked:
            is_poison = not self.appended or self.pick.random() < 1 / POISON_EVERY
            fields = {"poison": "yes"} if is_poison else {"sku": "42"}
            batch = 1 if is_poison else BATCH
            ids = await hg.stream("chaos").append_many([fields] * batch)
            self.appended |= dict.fromkeys(ids, is_poison)
        self.has_appended.set()

    async def work_in_python(self, hg: headgate.AsyncClient) -> None:
        async def handle(job: headgate.Job) -> None:
            if "poison" in job.fields:
                raise ValueError("poison")
            if self.pick.random() < 0.01:
                raise RuntimeError("bad luck")
            await asyncio.sleep(self.pick.random() * 0.004)
            self.done["Python"][job.id] += 1

        group = hg.group("chaos", "workers")
        ignore = lambda job, error: None  # noqa: E731 - failures are the point
        await group.work(handle, concurrency=16, on_error=ignore, stop=self.stop)

    async def work_in_typescript(self, folder: Path) -> None:
        process = await asyncio.create_subprocess_exec(
            tool("node"), "chaos.mjs", self.url, cwd=folder, stdout=asyncio.subprocess.PIPE
        )
        assert process.stdout is not None
        stopping = asyncio.ensure_future(self.stop.wait())
        stopping.add_done_callback(lambda _: process.terminate())
        try:
            async for line in process.stdout:
                self.done["TypeScript"][line.decode().strip()] += 1
            assert await process.wait() == 0
        finally:
            stopping.cancel()
            if process.returncode is None:
                process.kill()
                await process.wait()

    async def disturb(self) -> None:
        """Kill the gateway and cut the network, evenly over the entries."""
        events = ["kill"] * ROUNDS + ["cut"] * ROUNDS * 2
        self.pick.shuffle(events)
        for number, event in enumerate(events, 1):
            share = number / (len(events) + 1)
            while len(self.appended) < ENTRIES * share or not self.have_both_worked:
                await asyncio.sleep(0.01)
            if event == "cut":
                self.proxy.cut()
            else:
                await self.kill()
                await self.start()

    async def until_worked_off(self, hg: headgate.AsyncClient) -> None:
        group = hg.group("chaos", "workers")
        await self.has_appended.wait()  # or its last batch would come when all have stopped
        while (info := await group.info())["pending"] or info["lag"]:
            await asyncio.sleep(0.1)
        self.stop.set()


async def test_each_entry_is_done_or_a_dead_letter(tmp_path: Path) -> None:
    folder = await asyncio.to_thread(program_folder, tmp_path / "program")
    async with Proxy().open() as proxy:
        chaos = Chaos(tmp_path / "data", proxy)
        await chaos.start()
        async with (
            asyncio.timeout(60 + ENTRIES / 100),
            headgate.AsyncClient(chaos.url, producer="chaos", retry_s=120) as hg,
        ):
            await hg.group("chaos", "workers").create(start="0", policy=POLICY)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(chaos.append(hg))
                tasks.create_task(chaos.work_in_python(hg))
                tasks.create_task(chaos.work_in_typescript(folder))
                tasks.create_task(chaos.disturb())
                tasks.create_task(chaos.until_worked_off(hg))
            dead_letters = [entry async for entry in hg.stream("chaos.dead").scan()]
            length = (await hg.stream("chaos").info())["length"]
        await chaos.kill()
    dead = Counter(str(entry.fields["_id"]) for entry in dead_letters)
    done = chaos.done["Python"] + chaos.done["TypeScript"]
    print(f"{len(done)} done, {done.total() - len(done)} of them again, {len(dead)} dead letters")
    assert length == len(chaos.appended) >= ENTRIES
    assert set(done) | set(dead) == set(chaos.appended)
    assert set(dead.values()) <= {1}
    assert {entry_id for entry_id, is_poison in chaos.appended.items() if is_poison} <= set(dead)
    assert not [entry_id for entry_id in done if chaos.appended[entry_id]]
