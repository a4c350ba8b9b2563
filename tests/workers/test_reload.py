"""SIGHUP: workers are replaced one after the other, and nobody is refused."""

import asyncio
import signal
from pathlib import Path

from tests.conditions import until
from tests.processes.gateway import Gateway
from tests.processes.wire import Wire
from tests.workers.clients import TWO, WORKERS, client_of

CLIENTS = 8


async def test_no_request_is_refused_while_workers_are_replaced(tmp_path: Path) -> None:
    gateway = await Gateway.start(tmp_path, TWO)
    before = gateway.process_ids()
    writers = [Writer(gateway, number) for number in range(CLIENTS)]
    async with client_of(gateway, WORKERS[0]) as poller, client_of(gateway, WORKERS[1]) as reader:
        await reader.ask("PUT", "/v1/streams/polled", {})
        await poller.send("GET", "/v1/streams/polled/entries?after=%24&wait_ms=60000")
        await reader.send("GET", "/v1/streams/polled/events")
        await reader.head()
        writing = [asyncio.create_task(writer.run()) for writer in writers]
        await until(lambda: all(writer.ids for writer in writers))

        gateway.signal(signal.SIGHUP)
        assert (await reader.event("draining"))["reconnect_after_ms"] > 0
        await until(lambda: "reload finished" in "\n".join(gateway.log_lines))
        counts = [len(writer.ids) for writer in writers]
        await until(
            lambda: all(
                len(writer.ids) > count for writer, count in zip(writers, counts, strict=True)
            )
        )
        for task in writing:
            task.cancel()
        async with client_of(gateway) as client:
            answer = await client.ask("POST", "/v1/streams/polled/entries", {"fields": {"v": "1"}})
        polled = await poller.response()
    after = gateway.process_ids()
    async with client_of(gateway) as client:
        stream = (await client.ask("GET", "/v1/streams/orders")).value
    await gateway.stop()

    assert [entry["id"] for entry in polled.value["entries"]] == [answer.value["id"]]
    assert after["engine"] == before["engine"]
    assert not {after[name] for name in WORKERS} & set(before.values())
    assert [writer.refusals for writer in writers] == [[]] * CLIENTS
    assert 0 <= stream["length"] - sum(len(writer.ids) for writer in writers) <= CLIENTS


async def test_a_worker_that_does_not_start_leaves_those_that_serve(tmp_path: Path) -> None:
    keys_file = tmp_path / "keys.json"
    keys_file.write_text('{"version": 1, "keys": []}\n')
    gateway = await Gateway.start(tmp_path / "data", {**TWO, "keys_file": keys_file})
    before = gateway.process_ids()
    keys_file.write_text("damaged")
    gateway.signal(signal.SIGHUP)
    await until(lambda: "reload aborted" in "\n".join(gateway.log_lines))
    async with client_of(gateway) as client:
        health = await client.ask("GET", "/readyz")
    after = gateway.process_ids()
    await gateway.stop()

    assert health.status == 200
    assert after == before


class Writer:
    """Appends over connections that it opens again when the answer says that they close."""

    def __init__(self, gateway: Gateway, number: int) -> None:
        self.ids: list[str] = []
        self.refusals: list[object] = []
        self._gateway = gateway
        self._number = number

    async def run(self) -> None:
        while True:
            client = await Wire.open(self._gateway.url)
            try:
                while await self._append(client):
                    await asyncio.sleep(0.002 * self._number)
            except (OSError, EOFError) as error:
                self.refusals.append(error)
            finally:
                client.close()

    async def _append(self, client: Wire) -> bool:
        """Append an entry; tells whether the connection goes on."""
        body = {"fields": {"from": str(self._number)}}
        answer = await client.ask("POST", "/v1/streams/orders/entries", body)
        if answer.status == 201:
            self.ids.append(answer.value["id"])
        else:
            self.refusals.append(answer)
        return answer.headers.get("connection") != "close"
