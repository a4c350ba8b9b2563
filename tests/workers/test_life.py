"""The start and the end of a gateway with workers."""

import asyncio
import json
import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from tests.conditions import until
from tests.processes.gateway import Gateway, failure_of, headgate
from tests.workers.clients import TWO, WORKERS, client_of, until_waiting


def is_running(process_id: int) -> bool:
    """Tell whether a process has not ended; one that nobody has waited for has."""
    with suppress(OSError):
        return Path(f"/proc/{process_id}/stat").read_text().rpartition(") ")[2][0] != "Z"
    return False


async def test_a_gateway_greets_once_and_all_its_workers_serve(tmp_path: Path) -> None:
    gateway = await Gateway.start(tmp_path, {**TWO, "log_level": "debug"})
    assert set(gateway.process_ids()) == {"engine", *WORKERS}
    ids = []
    for worker in WORKERS:
        async with client_of(gateway, worker) as client:
            body = {"fields": {"from": worker}}
            answer = await client.ask("POST", "/v1/streams/orders/entries", body)
            ids.append(answer.value["id"])
    async with client_of(gateway) as client:
        page = await client.ask("GET", "/v1/streams/orders/entries")
    await gateway.stop()

    assert [entry["id"] for entry in page.value["entries"]] == ids
    lines = [json.loads(line) for line in gateway.log_lines]
    assert sum(line["event"].startswith("Headgate is at") for line in lines) == 1
    assert {line.get("process") for line in lines} >= {"engine", *WORKERS}


async def test_what_was_appended_is_there_after_the_next_start_also_without_workers(
    tmp_path: Path,
) -> None:
    stream = None
    for settings in (TWO, {"workers": 1}, TWO):
        gateway = await Gateway.start(tmp_path, settings)
        async with client_of(gateway) as client:
            await client.ask("POST", "/v1/streams/orders/entries", {"fields": {"v": "1"}})
            stream = await client.ask("GET", "/v1/streams/orders")
        await gateway.stop()

    assert stream is not None
    assert stream.value["length"] == 3
    assert not (tmp_path / "engine.sock").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_to_all_processes_lets_a_long_poll_be_answered(
    tmp_path: Path, number: int
) -> None:
    gateway = await Gateway.start(tmp_path, TWO)
    processes = gateway.process_ids()
    async with client_of(gateway) as client:
        await client.ask("POST", "/v1/streams/orders/entries", {"fields": {"v": "1"}})
        await client.send("GET", "/v1/streams/orders/entries?after=%24&wait_ms=30000")
        await until_waiting(gateway)
        gateway.signal_all(number)
        answer = await client.response()
    code = await gateway.until_end()

    assert answer.status == 503
    assert answer.value["code"] == "draining"
    assert code == 0
    assert not any(map(is_running, processes.values()))
    assert not [line for line in gateway.log_lines if "ERROR" in line or "CRITICAL" in line]


async def test_all_processes_end_with_the_supervisor_and_the_next_gateway_waits_for_that(
    tmp_path: Path,
) -> None:
    gateway = await Gateway.start(tmp_path, TWO)
    processes, port = gateway.process_ids(), gateway.url.rpartition(":")[2]
    os.kill(processes["engine"], signal.SIGSTOP)  # it ends when it goes on
    os.kill(gateway.process_id, signal.SIGKILL)
    following = await Gateway.begin(tmp_path, {**TWO, "port": port})
    await until(lambda: any("is in use: waiting" in line for line in following.log_lines))
    os.kill(processes["engine"], signal.SIGCONT)
    await following.until_greeting()
    assert not any(map(is_running, processes.values()))
    await gateway.until_end()
    await following.stop()


async def test_a_process_that_still_starts_ends_with_the_supervisor(tmp_path: Path) -> None:
    gateway = await Gateway.begin(tmp_path, TWO)
    await until(lambda: len(gateway.process_ids()) == 3)
    processes = gateway.process_ids()
    os.kill(gateway.process_id, signal.SIGKILL)
    await until(lambda: not any(map(is_running, processes.values())))
    await gateway.until_end()


async def test_a_second_gateway_does_not_take_the_directory_of_the_first(tmp_path: Path) -> None:
    gateway = await Gateway.start(tmp_path, TWO)
    for workers in (1, 2):
        second = await Gateway.begin(tmp_path, {**TWO, "workers": workers})
        assert await second.until_end() == 1
        assert any(": in use by " in line for line in second.log_lines)
    os.kill(gateway.process_ids()["engine"], signal.SIGKILL)
    async with client_of(gateway) as client:
        answer = await client.ask("POST", "/v1/streams/s/entries", {"fields": {"v": "1"}})
        while answer.status == 503:
            await asyncio.sleep(0.1)
            answer = await client.ask("POST", "/v1/streams/s/entries", {"fields": {"v": "1"}})
    await gateway.stop()

    assert answer.status == 201


async def test_a_damaged_directory_stops_the_start(tmp_path: Path) -> None:
    gateway = await Gateway.start(tmp_path, TWO)
    async with client_of(gateway) as client:
        await client.ask("POST", "/v1/streams/orders/entries", {"fields": {"v": "1"}})
        await client.ask("POST", "/v1/streams/orders/entries", {"fields": {"v": "2"}})
    await gateway.stop()
    damage(tmp_path)

    gateway = await Gateway.begin(tmp_path, TWO)
    assert await gateway.until_end() == 1
    assert failure_of(gateway.log_lines[-1]).startswith(f"{tmp_path}: ")


async def test_a_taken_port_stops_the_start(tmp_path: Path) -> None:
    gateway = await Gateway.start(tmp_path / "first", TWO)
    port = gateway.url.rpartition(":")[2]
    words = ("serve", "--data-dir", tmp_path / "second", "--workers", "2", "--port", port)
    result = await asyncio.to_thread(headgate, *words)
    await gateway.stop()

    assert result.returncode == 1
    assert "cannot listen" in result.stderr


def damage(data_dir: Path) -> None:
    """Change a byte of the first record of the journal."""
    [segment] = data_dir.glob("journal-*")
    data = bytearray(segment.read_bytes())
    data[len(data) // 3] ^= 0xFF
    segment.write_bytes(bytes(data))
