"""A gateway that is killed at any moment has kept every promise when it is back.

HEADGATE_TEST_KILLS says how often (by hand: 50), HEADGATE_TEST_SEED with which choices; when
exactly a kill comes is up to the machine all the same. With HEADGATE_TEST_WORKERS=2 all processes
of the gateway are killed, or the engine process alone with HEADGATE_TEST_KILLED=engine as well.
"""

import asyncio
import os
import random
import signal
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from tests.conditions import until
from tests.crash.checker import violations
from tests.crash.gateway import END_S_MAX, Gateway
from tests.crash.history import History, State
from tests.crash.load import Load, begin

ROUNDS = int(os.environ.get("HEADGATE_TEST_KILLS", "6"))
KILLS_ENGINE = os.environ.get("HEADGATE_TEST_KILLED") == "engine"
POLICIES = ["always", "always", "always", "everysec", "no"]
"""A process that is killed takes nothing with it that it has written, whatever the policy."""

SETTINGS = {
    "rewrite_bytes_min": 40_000,  # so that rewrites begin in the middle of things
    "rewrite_percentage": 60,
    "memory_bytes_max": 2**20,  # so that little stays in memory
}
LOAD_S = (0.1, 0.4)
REWRITE_S = 5.0
"""The first round and some others last as long as a rewrite, and no longer than this."""

START_S = (0.2, 1.2)
"""A gateway that is killed while it starts is killed about here: most of it is imports."""


@pytest.fixture
def rng() -> random.Random:
    seed = int(os.environ.get("HEADGATE_TEST_SEED") or random.randrange(2**32))
    print(f"HEADGATE_TEST_SEED={seed} makes the same choices")
    return random.Random(seed)


async def test_no_promise_is_broken_by_kills(tmp_path: Path, rng: random.Random) -> None:
    history, seen = History(), set[str]()
    load = Load(history, rng)
    gateway = await Gateway.start(tmp_path, SETTINGS)
    await begin(gateway.url)
    before = await load.look(gateway.url)
    for count in range(1, ROUNDS + 1):
        if KILLS_ENGINE:
            await live_without_engine(gateway, load, tmp_path, rng)
        else:
            await live_and_die(gateway, load, tmp_path, rng)
        seen |= snapshots(tmp_path)
        if not KILLS_ENGINE:
            if rng.random() < 0.2:
                await killed_while_it_starts(tmp_path, rng)
            gateway = await Gateway.start(tmp_path, {**SETTINGS, "fsync": rng.choice(POLICIES)})
        after = await load.look(gateway.url)
        assert violations(history, before, after) == [], f"after kill {count}"
        before = after
        history.begin_round()
    await gateway.stop()
    print(
        f"{ROUNDS} kills, {load.answer_count} answers, {load.repeat_count} of them repeats, "
        f"{len(before.entries)} entries, {len(before.settled())} settled, "
        f"{len(before.pending)} pending, {len(seen)} snapshots"
    )
    assert is_load(load, before)
    assert seen


async def live_and_die(gateway: Gateway, load: Load, data_dir: Path, rng: random.Random) -> None:
    """Run all clients, and kill the gateway at some moment."""
    running = asyncio.create_task(load.run(gateway.url))
    await live(running, data_dir, rng)
    if rng.random() < 0.5:  # with the next answer: what it says must be true already
        load.on_answer = gateway.kill_now
    else:
        gateway.kill_now()
    await running
    await gateway.kill()
    load.on_answer = lambda: None


async def live_without_engine(
    gateway: Gateway, load: Load, data_dir: Path, rng: random.Random
) -> None:
    """Run all clients, kill the engine at some moment, and return once there is another one."""
    before = gateway.process_ids()
    load.may_be_unavailable = True
    running = asyncio.create_task(load.run(gateway.url))
    await live(running, data_dir, rng)

    def kill() -> None:
        load.on_answer = lambda: None
        os.kill(before["engine"], signal.SIGKILL)

    if rng.random() < 0.5:
        load.on_answer = kill
    else:
        kill()
    await until(
        lambda: gateway.process_ids().get("engine") not in (None, before["engine"]), END_S_MAX
    )
    await until_ready(gateway.url)
    load.is_over = True
    await running
    load.is_over = False
    assert {**gateway.process_ids(), "engine": before["engine"]} == before, "a worker has died"


async def live(running: asyncio.Task[None], data_dir: Path, rng: random.Random) -> None:
    """Let clients run for a while."""
    if not snapshots(data_dir) or rng.random() < 0.25:
        await until_rewritten(data_dir)
    else:
        await asyncio.wait([running], timeout=rng.uniform(*LOAD_S))


async def until_ready(url: str) -> None:
    """Return once changes are taken."""
    async with httpx.AsyncClient(base_url=url) as http, asyncio.timeout(END_S_MAX):
        while (await http.get("/readyz")).status_code != 200:
            await asyncio.sleep(0.02)


async def killed_while_it_starts(data_dir: Path, rng: random.Random) -> None:
    gateway = await Gateway.begin(data_dir, SETTINGS)
    await asyncio.sleep(rng.uniform(*START_S))
    await gateway.kill()


def snapshots(data_dir: Path) -> set[str]:
    return {path.name for path in data_dir.glob(f"snapshot-{'[0-9]' * 20}")}


async def until_rewritten(data_dir: Path) -> None:
    """Return as soon as there is another snapshot: what it replaces is about to go."""
    known = snapshots(data_dir)
    with suppress(TimeoutError):
        await until(lambda: not snapshots(data_dir) <= known, REWRITE_S)


def is_load(load: Load, state: State) -> bool:
    """Tell whether there was something to break."""
    return (
        load.answer_count > 10 * ROUNDS
        and len(state.entries) > 10 * ROUNDS
        and len(state.settled()) > ROUNDS
    )
