"""A process of the gateway is killed in the middle of things, and started anew."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

from tests.conditions import WITHIN_S, until
from tests.processes.gateway import Gateway
from tests.processes.wire import Wire
from tests.workers.clients import TWO, WORKERS, client_of

GROUP = "/v1/streams/jobs/groups/workers"
COUNT = 200


async def test_the_entries_of_a_killed_worker_go_to_others_and_it_is_started_anew(
    tmp_path: Path,
) -> None:
    gateway = await Gateway.start(tmp_path, TWO)
    first, second = WORKERS
    async with (
        client_of(gateway, first) as dying,
        client_of(gateway, second) as heir,
        client_of(gateway, second) as control,
    ):
        await control.ask("PUT", GROUP, {"start": "0", "create_stream": True})
        await dying.send("GET", f"{GROUP}/events?credit={COUNT}")
        nameless = await ready(dying)
        ids = await append(control, COUNT)
        assert [(await dying.event("entry"))["id"] for _ in ids] == ids
        await heir.send("GET", f"{GROUP}/events?credit={COUNT}&consumer=heir")
        await ready(heir)

        process_id = gateway.process_ids()[first]
        os.kill(process_id, signal.SIGKILL)
        entries = [await heir.event("entry") for _ in ids]
        known = await control.ask("GET", f"{GROUP}/consumers")

        assert sorted(entry["id"] for entry in entries) == sorted(ids)
        assert {entry["deliveries"] for entry in entries} == {2}
        assert nameless not in {each["name"] for each in known.value["consumers"]}
        await until(lambda: gateway.process_ids().get(first) not in (None, process_id))
        async with client_of(gateway, first) as again:
            assert (await again.ask("GET", GROUP)).value["pending"] == COUNT
    await gateway.stop()


async def test_a_killed_engine_comes_back_with_everything_that_was_acknowledged(
    tmp_path: Path,
) -> None:
    gateway = await Gateway.start(tmp_path, TWO)
    ids: list[str] = []
    statuses: set[int] = set()
    async with client_of(gateway) as follower, client_of(gateway) as writer:
        await append(writer, 1)
        await follower.send("GET", "/v1/streams/jobs/events?after=0")
        await follower.head()
        writing = asyncio.create_task(write(writer, ids, statuses))
        await until(lambda: len(ids) > 20)
        process_id = gateway.process_ids()["engine"]
        gateway.kill_process("engine")
        await until(lambda: gateway.process_ids().get("engine") not in (None, process_id))
        count = len(ids)
        await until(lambda: len(ids) > count + 20)
        writing.cancel()
        # The same connection. What was written when the engine was killed comes, too.
        seen: set[str] = set()
        async with asyncio.timeout(WITHIN_S):
            while not seen >= set(ids):
                seen.add((await follower.event("entry"))["id"])
        metrics = (await follower_of(gateway)).decode()
    await gateway.stop()

    assert statuses <= {201, 503}
    assert 'headgate_process_restarts_total{role="engine"} 1.0' in metrics
    assert "headgate_engine_up 1.0" in metrics


async def follower_of(gateway: Gateway) -> bytes:
    async with client_of(gateway) as client:
        return (await client.ask("GET", "/metrics")).content


async def ready(client: Wire) -> str:
    """Return the name of the consumer that a connection reads as."""
    await client.head()
    consumer: str = (await client.event("ready"))["consumer"]
    return consumer


async def append(client: Wire, count: int) -> list[str]:
    entries: Any = [{"fields": {"v": str(number)}} for number in range(count)]
    answer = await client.ask("POST", "/v1/streams/jobs/entries/batch", entries)
    ids: list[str] = answer.value["ids"]
    return ids


async def write(client: Wire, ids: list[str], statuses: set[int]) -> None:
    """Append one entry after the other, and note those that are acknowledged."""
    while True:
        body = {"fields": {"v": "x"}}
        answer = await client.ask("POST", "/v1/streams/jobs/entries", body)
        statuses.add(answer.status)
        if answer.status == 201:
            ids.append(answer.value["id"])
