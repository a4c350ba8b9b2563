"""Operations: health, limits, metrics, documents and methods."""

import asyncio
import re
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest

from headgate.app.settings import Settings
from headgate.engine.limits import PATTERN_BYTES_MAX
from tests.api.conftest import Live, refusal_of, running
from tests.conditions import eventually
from tests.servers.chosen import URL, is_behind_socket

pytestmark = pytest.mark.asyncio(loop_scope="session")

ORDERS = "/v1/streams/orders"


def sample(metrics: str, name: str) -> float:
    """Return the value of a sample, 0 if it is not there."""
    match = re.search(rf"^{re.escape(name)} (\S+)$", metrics, re.MULTILINE)
    return float(match[1]) if match else 0.0


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
async def test_a_running_gateway_is_alive_and_ready(shared: Live, path: str) -> None:
    asked_by_head = await shared.http.head(path)
    answer = await shared.http.get(path)

    durable = "disk" if URL is None else "nothing"
    promise = {"durable": durable} if path == "/readyz" else {}
    assert (answer.status_code, answer.json()) == (200, {"status": "ok", **promise})
    assert (asked_by_head.status_code, asked_by_head.content) == (200, b"")


async def test_the_limits_are_those_of_the_settings() -> None:
    chosen = {"ids_max": 700, "wait_ms_max": 0, "sockets_max": 50, "memory_bytes_max": 2**30}
    async with running(Settings.model_validate(chosen)) as live:
        limits = (await live.http.get("/v1/limits")).json()

    assert {name: limits.pop(name) for name in chosen} == chosen
    assert limits.pop("durable") == "nothing"
    assert limits.pop("pattern_bytes_max") == PATTERN_BYTES_MAX
    assert limits.pop("abilities") == ["bulk", "claim_feed", "commands", "patterns", "policies"]
    defaults, others = Settings(), limits
    assert others == {name: getattr(defaults, name) for name in others}


# Metrics


async def test_metrics_count_requests_entries_and_who_waits() -> None:
    async with running(Settings(observe=["other*"])) as live:
        await live.create_group("orders", "billing")
        await live.append("orders", *"abc")
        for path in ("/v1/streams/nothing", "/a-path-of-mine"):
            await live.http.get(path)
        entries = f"{ORDERS}/entries"
        await live.http.get(f"{entries}?limit=2")
        await live.http.get(entries, headers={"Accept": "application/x-ndjson"})
        await live.http.get(f"{entries}?after=0&limit=1")
        await live.http.post("/v1/read", json={"streams": [{"stream": "orders"}]})
        await live.read_group("orders", "billing", "worker")
        await live.http.post("/v1/commands", json=["XRANGE", "orders", "-", "+"])
        pipeline = [["XREVRANGE", "orders", "+", "-", "COUNT", "1"], ["XLEN", "nothing"]]
        await live.http.post("/v1/commands/pipeline", json=pipeline)
        await live.http.post("/v1/commands/multi-exec", json=[["XRANGE", "orders", "-", "+"]])
        async with live.http.stream("GET", f"{ORDERS}/events"):
            pass
        poll = f"{entries}?after=$&wait_ms=30000"
        waiting = [asyncio.create_task(live.http.get(poll)) for _ in range(3)]
        await live.until_waiting(3)
        answer = await live.http.get("/metrics")
        await live.append("orders", "1")
        await asyncio.gather(*waiting)
        later = (await live.http.get("/metrics")).text

    metrics = answer.text
    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    counted = [
        *(("appendEntries", 201, 1), ("describeStream", 404, 1), ("none", 404, 1)),
        ("readEntries", 200, 3),
    ]
    for operation, status, count in counted:
        labels = f'{{operation="{operation}",status="{status}"}}'
        assert sample(metrics, f"headgate_requests_total{labels}") == count, operation
    polls = '{operation="readEntries",status="200"}'
    assert sample(later, f"headgate_requests_total{polls}") == 6
    # What is streamed, and long polls, are not timed.
    for operation, count in (("appendEntries", 1), ("readEntries", 2), ("followStream", 0)):
        name = f'headgate_request_seconds_count{{operation="{operation}"}}'
        assert sample(metrics, name) == count
    assert sample(metrics, "headgate_entries_appended_total") == 3
    assert sample(metrics, 'headgate_entries_delivered_total{transport="rest"}') == 12
    assert sample(metrics, 'headgate_entries_delivered_total{transport="commands"}') == 7
    assert (sample(metrics, "headgate_waiters"), sample(later, "headgate_waiters")) == (3, 0)
    assert sample(later, "headgate_tasks") < sample(metrics, "headgate_tasks")
    # Without a disk nothing is cold, and what a client asks for is no label.
    for text in ("headgate_cold", "headgate_journal", "of-mine", "orders"):
        assert text not in metrics


async def rewritten(live: Live) -> dict[str, Any]:
    """Rewrite the journal; returns its state after that."""
    status: dict[str, Any] = (await live.http.post("/v1/admin/rewrite")).json()
    if status["rewrite_count"]:
        return status

    async def ask() -> dict[str, Any]:
        shown: dict[str, Any] = (await live.http.get("/v1/admin/journal")).json()
        return shown

    return await eventually(ask, lambda shown: shown["rewrite_count"])


@pytest.mark.embedded("servers keep nothing on a disk that the gateway sees")
@pytest.mark.skipif(is_behind_socket(), reason="its process tells that, and not the worker")
async def test_what_is_hot_cold_and_dead_is_told(tmp_path: Path) -> None:
    pick = Random(1)
    batch = [{"fields": {"v": pick.randbytes(400).hex()}} for _ in range(500)]
    async with running(Settings(data_dir=tmp_path)) as live:
        await live.http.post(f"{ORDERS}/entries/batch", json=batch)
        hot = (await live.http.get(ORDERS)).json()
        before = await rewritten(live)
        cold = (await live.http.get(ORDERS)).json()
    async with running(Settings(data_dir=tmp_path)) as live:
        for _ in range(2):
            await live.http.get(f"{ORDERS}/entries?limit=500")
        await live.http.post(f"{ORDERS}/trim", json={"max_length": 100})
        trimmed = (await live.http.get(ORDERS)).json()
        metrics = (await live.http.get("/metrics")).text
        after = (await live.http.get("/v1/admin/journal")).json()

    assert (hot["cold_bytes"], hot["hot_bytes"] > 200_000) == (0, True)
    assert cold["hot_bytes"] < 100_000 < cold["cold_bytes"] == before["cold_bytes"]
    assert before["dead_bytes"] < 1000 < before["extents_bytes"] < before["size_bytes"]

    assert trimmed["cold_bytes"] < cold["cold_bytes"] - 100_000
    assert after["dead_bytes"] == after["extents_bytes"] - after["cold_bytes"] > 100_000
    for name in ("extents_bytes", "cold_bytes", "dead_bytes"):
        assert sample(metrics, f"headgate_journal_{name}") == after[name] > 0
    assert sample(metrics, "headgate_cold_hits_total") > 0
    read_count = sample(metrics, "headgate_cold_reads_total")
    assert sample(metrics, "headgate_cold_read_seconds_count") == read_count > 0
    assert sample(metrics, 'headgate_memory_bytes{kind="cache"}') > 0


# Documents


async def test_the_documentation_loads_everything_from_the_gateway(shared: Live) -> None:
    page = (await shared.http.get("/docs")).text

    assert not re.findall(r"https?://|=[\"']//|url\(", page)
    assets = re.findall(r"""(?:src|href)=["']([^"']+)["']""", page)
    assert len(assets) >= 3
    for asset in [*assets, "/openapi.json"]:
        answer = await shared.http.get(asset)
        assert answer.status_code == 200, asset
        assert answer.content


# Methods


METHODS = {
    "/v1/streams": {"GET"},
    ORDERS: {"GET", "PUT", "PATCH", "DELETE"},
    f"{ORDERS}/trim": {"POST"},
    f"{ORDERS}/entries": {"GET", "POST"},
    f"{ORDERS}/entries/1-0": {"GET", "DELETE"},
    f"{ORDERS}/entries/batch": {"GET", "POST", "DELETE"},  # `batch` could be an id
    f"{ORDERS}/groups/billing/consumers/c": {"PUT", "DELETE"},
    "/healthz": {"GET", "HEAD"},
}


async def test_a_wrong_method_is_told_the_right_ones(shared: Live) -> None:
    for path, methods in METHODS.items():
        for method in ("OPTIONS", "TRACE", "HEAD", "GET", "POST", "PUT", "PATCH", "DELETE"):
            if method not in methods:
                answer = await shared.http.request(method, path)
                assert answer.status_code == 405, (method, path)
                assert set(answer.headers["Allow"].split(", ")) == methods
                if method == "HEAD":
                    assert answer.content == b""
                else:
                    assert refusal_of(answer) == (405, "method_not_allowed", "")


async def test_an_unknown_path_is_not_found(shared: Live) -> None:
    await shared.append("orders", "1")
    for path in ("/v1", "/v2/streams", "/v1/streams/", f"{ORDERS}/", "//"):
        answer = await shared.http.request("DELETE", httpx.URL(shared.url + path))
        assert refusal_of(answer) == (404, "not_found", ""), path
    assert (await shared.stream("orders"))["length"] == 1
