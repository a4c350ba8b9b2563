"""A worker and the engine hang, and are replaced."""

import os
import signal
from pathlib import Path

import pytest

from tests.conditions import until
from tests.processes.gateway import Gateway
from tests.workers.clients import TWO, client_of
from tests.workers.test_deaths import append


@pytest.mark.long
async def test_what_hangs_is_replaced_and_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    gateway = await Gateway.start(tmp_path, TWO)
    async with client_of(gateway, "worker 1") as client:
        ids = await append(client, 10)
        before = gateway.process_ids()
        for name in ("engine", "worker 2"):
            os.kill(before[name], signal.SIGSTOP)
        await client.send("POST", "/v1/streams/jobs/entries", {"fields": {"v": "late"}})
        await until(
            lambda: all(
                gateway.process_ids().get(name) not in (None, before[name])
                for name in ("engine", "worker 2")
            )
        )
    async with client_of(gateway, "worker 2") as client:
        read = await client.ask("GET", "/v1/streams/jobs/entries?after=0&limit=100")
    after = gateway.process_ids()
    await gateway.stop()

    assert [entry["id"] for entry in read.value["entries"]][: len(ids)] == ids
    assert after["worker 1"] == before["worker 1"]
    hung = [line for line in gateway.log_lines if "process hangs and is killed" in line]
    assert sorted("worker 2" in line for line in hung) == [False, True]


async def test_processes_that_were_all_stopped_go_on(tmp_path: Path) -> None:
    gateway = await Gateway.start(tmp_path, TWO)
    before = gateway.process_ids()
    gateway.signal_all(signal.SIGSTOP)
    gateway.signal_all(signal.SIGCONT)
    async with client_of(gateway, "worker 1") as client:
        await append(client, 10)
    assert gateway.process_ids() == before
    await gateway.stop()
