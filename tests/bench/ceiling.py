"""A million streams and ten million entries in bounded memory: refusals, and ongoing work.

`python -m tests.bench.ceiling`: bounded to 1 GiB; takes about five minutes. It is no part of `make
bench`: it shows a behaviour, not a speed.
"""

import json
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import httpx

from deploy.local_cluster.server import free_ports
from tests.bench.servers import running

MEMORY_BYTES_MAX = 2**30
FULL_STREAMS = 1_000
ENTRIES = 10_000_000
STREAMS = 1_000_000
BATCH = 10_000


def main() -> None:
    """Fill a gateway, show what it does then, and start it again."""
    with tempfile.TemporaryDirectory() as data_dir:
        with _gateway(data_dir) as (http, process_id):
            _fill(http, process_id)
            _show(http, process_id)
        began_s = time.perf_counter()
        with _gateway(data_dir) as (http, process_id):
            print(f"started again in {time.perf_counter() - began_s:.0f} s")
            _print_memory(http, process_id)
            print("an append then:", http.post(_entries("new"), json=_entry(0)).status_code)


@contextmanager
def _gateway(data_dir: str) -> Iterator[tuple[httpx.Client, int]]:
    """Run the gateway on a directory; yields a client and its process id."""
    [port] = free_ports(1)
    command = [sys.executable, "-m", "headgate.app.cli", "serve", "--port", str(port)]
    command += ["--data-dir", data_dir, "--fsync", "everysec", "--log-level", "warning"]
    variables = {"HEADGATE_MEMORY_BYTES_MAX": str(MEMORY_BYTES_MAX)}
    url = f"http://127.0.0.1:{port}"
    with running(command, port, variables) as process_id, httpx.Client(base_url=url) as http:
        http.timeout = httpx.Timeout(600)
        yield http, process_id


def _fill(http: httpx.Client, process_id: int) -> None:
    """Append ten million entries to a thousand streams, then one to each of a million."""
    lines = "".join(json.dumps(_entry(number)) + "\n" for number in range(BATCH))
    headers = {"Content-Type": "application/x-ndjson"}
    for number in range(ENTRIES // BATCH):
        url = _entries(f"full-{number % FULL_STREAMS}") + "/batch"
        answer = http.post(url, content=lines, headers=headers)
        assert answer.status_code == 201, answer.text
    print(f"{ENTRIES} entries in {FULL_STREAMS} streams")
    _print_memory(http, process_id)
    names = iter(range(STREAMS))
    taken, refused = 0, ""
    while portion := list(islice(names, 1_000)):
        commands = [["XADD", f"one-{name}", "*", "sku", str(name), "qty", "1"] for name in portion]
        results = http.post("/v1/commands/pipeline", json=commands).json()
        taken += sum("result" in result for result in results)
        refused = next((result["error"] for result in results if "error" in result), refused)
        if refused:
            break
    print(f"{taken} of {STREAMS} streams of one entry, then: {refused}")
    _print_memory(http, process_id)


def _show(http: httpx.Client, process_id: int) -> None:
    refused = http.post(_entries("new"), json=_entry(0))
    print("an append:", refused.status_code, refused.json()["code"])
    read = http.get("/v1/streams/full-0/entries?limit=100")
    print("a read:", read.status_code, len(read.json()["entries"]), "entries")
    group = "/v1/streams/full-0/groups/g"
    made = http.put(group, json={"start": "0"})
    print("a new group:", made.status_code, made.json().get("code"))
    trimmed = http.post("/v1/streams/full-1/trim", json={"max_length": 0})
    print("a trim:", trimmed.status_code, trimmed.json())
    for number in range(2, FULL_STREAMS):
        http.post(f"/v1/streams/full-{number}/trim", json={"max_length": 0}).raise_for_status()
    print(f"{FULL_STREAMS - 1} streams trimmed")
    _print_memory(http, process_id)
    print("an append then:", http.post(_entries("new"), json=_entry(0)).status_code)
    print("a new group:", http.put(group, json={"start": "0"}).status_code)
    deliveries = http.post(f"{group}/read?consumer=me", json={"limit": 1000}).json()["entries"]
    ids = [delivery["id"] for delivery in deliveries]
    acked = http.post(f"{group}/ack?consumer=me", json={"ids": ids})
    print(f"a group read: {len(ids)}, an ack: {acked.status_code}")


def _entry(number: int) -> dict[str, Any]:
    return {
        "fields": {"sku": str(number), "qty": str(number % 7), "at": str(1_700_000_000 + number)}
    }


def _entries(stream: str) -> str:
    return f"/v1/streams/{stream}/entries"


def _print_memory(http: httpx.Client, process_id: int) -> None:
    """Print the memory of the gateway by its own account, and by the system's."""
    lines = http.get("/metrics").text.splitlines()
    kinds = {
        line.split('"')[1]: float(line.split()[-1])
        for line in lines
        if line.startswith("headgate_memory_bytes{")
    }
    status = Path(f"/proc/{process_id}/status").read_text()
    resident_kib = next(
        int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")
    )
    shown = ", ".join(f"{kind} {size / 2**20:.0f}" for kind, size in kinds.items())
    counted = sum(kinds.values()) / 2**20
    print(f"  counted {counted:.0f} MiB ({shown}); resident {resident_kib / 1024:.0f} MiB")


if __name__ == "__main__":
    main()
