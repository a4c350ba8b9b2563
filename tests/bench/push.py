"""Push beside a worker that a user would write: Redis, redis-py and aiohttp, on a core."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import redis

from tests.bench.push_worker import CONCURRENCY, GROUP, STREAM
from tests.bench.servers import LOAD_CORE, free_port, pin_to_server_core, serving_process
from tests.bench.table import Figure

ROUNDS = 3
COUNT = 20_000
BATCHED = 100
PEER = "worker on Redis"
_FIELDS = {"kind": "order", "who": "anna", "n": "%06d"}
_NGINX = """
daemon off; worker_processes 1; pid nginx.pid; error_log error.log;
events {{ worker_connections 1024; }}
http {{
  access_log off; keepalive_requests 1000000;
  client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi; scgi_temp_path scgi;
  server {{ listen 127.0.0.1:{port}; location / {{ return 204; }} }}
}}
"""


def measure() -> list[Figure]:
    """Return the entries a second that a quick receiver gets."""
    here, seconds, batched, there = list[float](), list[float](), list[float](), list[float]()
    with receiver() as url:
        for number in range(ROUNDS):
            print(f"push: round {number + 1} of {ROUNDS}", flush=True)
            each, each_cpu = asyncio.run(_pushed(url, "entry"))
            here.append(each)
            seconds.append(each_cpu)
            batched.append(asyncio.run(_pushed(url, "batch"))[0])
            there.append(_worked(url))
    return [
        Figure.of_rounds("posts", here, "/s", PEER, there, ratio_at_least=1.0),
        Figure.of_rounds("posts of a core", seconds, "/s", at_least=5_000.0),
        Figure.of_rounds(f"entries in batches of {BATCHED}", batched, "/s"),
    ]


@contextmanager
def receiver() -> Iterator[str]:
    """Run nginx as a receiver that acknowledges at once; yields its URL."""
    nginx = shutil.which("nginx") or "/usr/sbin/nginx"
    with tempfile.TemporaryDirectory() as folder:
        port, configuration = free_port(), Path(folder) / "nginx.conf"
        configuration.write_text(_NGINX.format(port=port))
        process = subprocess.Popen([nginx, "-p", folder, "-c", str(configuration)])
        os.sched_setaffinity(process.pid, {LOAD_CORE})
        url = f"http://127.0.0.1:{port}/hook"
        try:
            _until_answered(url)
            yield url
        finally:
            process.terminate()
            process.wait(20)


def _until_answered(url: str) -> None:
    until_s = time.perf_counter() + 20
    while True:
        try:
            httpx.post(url, content=b"{}").raise_for_status()
        except httpx.TransportError:
            if time.perf_counter() > until_s:
                raise
            time.sleep(0.02)
        else:
            return


async def _pushed(url: str, body: str) -> tuple[float, float]:
    """Return the entries that were pushed a second, and in a second of the processor."""
    with serving_process("headgate", push_allow="127.0.0.0/8") as (port, process_id):
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as http:
            group = f"/v1/streams/{STREAM}/groups/{GROUP}"
            await http.put(group, json={"create_stream": True, "start": "0"})
            for begin in range(0, COUNT, 1_000):
                entries = [{"fields": _fields(number)} for number in range(begin, begin + 1_000)]
                answer = await http.post(f"/v1/streams/{STREAM}/entries/batch", json=entries)
                answer.raise_for_status()
            push = {"url": url, "concurrency": CONCURRENCY, "body": body, "batch_max": BATCHED}
            (await http.put(f"{group}/push", json={**push, "url": url})).raise_for_status()
            while not (await http.get(group)).json()["pending"]:  # it has seen its first push
                await asyncio.sleep(0.001)
            began_s, began_cpu_s = time.perf_counter(), _cpu_s(process_id)
            while (shown := (await http.get(group)).json())["pending"] or shown["lag"]:
                await asyncio.sleep(0.02)
            taken_s = time.perf_counter() - began_s
            return COUNT / taken_s, COUNT / (_cpu_s(process_id) - began_cpu_s)


def _worked(url: str) -> float:
    """Return the entries a second that a worker posts."""
    port = free_port()
    server = subprocess.Popen(
        ["redis-server", "--port", str(port), "--save", "", "--appendonly", "no"],
        stdout=subprocess.DEVNULL,
    )
    os.sched_setaffinity(server.pid, {LOAD_CORE})
    try:
        client = redis.Redis(port=port)
        until_s = time.perf_counter() + 20
        while True:
            try:
                client.xgroup_create(STREAM, GROUP, "0", mkstream=True)
                break
            except redis.ConnectionError:
                if time.perf_counter() > until_s:
                    raise
                time.sleep(0.02)
        pipeline = client.pipeline(transaction=False)
        for number in range(COUNT):
            fields: dict[Any, Any] = {**_fields(number)}
            pipeline.xadd(STREAM, fields)
        pipeline.execute()
        client.close()
        began_s = time.perf_counter()
        worker = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.push_worker", str(port), url, str(COUNT)]
        )
        pin_to_server_core(worker.pid)
        assert worker.wait(120) == 0
        return COUNT / (time.perf_counter() - began_s)
    finally:
        server.terminate()
        server.wait(20)


def _fields(number: int) -> dict[str, str]:
    return {**_FIELDS, "n": _FIELDS["n"] % number}


def _cpu_s(process_id: int) -> float:
    """Return how long a process has had the processor."""
    parts = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    return (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    print(json.dumps([figure.cells() for figure in measure()], indent=1))
