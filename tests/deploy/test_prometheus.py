"""Alerts and the dashboard, with a real Prometheus that scrapes a real gateway."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest

from deploy.local_cluster.server import free_ports
from tests.conditions import WITHIN_S
from tests.deploy.test_manifests import DEPLOY
from tests.deploy.yaml_files import run
from tests.installed import program
from tests.processes.gateway import Gateway

FOLDER = DEPLOY / "prometheus"
RULES = FOLDER / "headgate.rules.yml"
DASHBOARD = json.loads((DEPLOY / "grafana" / "headgate.json").read_text())

COLD = "/v1/streams/cold/entries"
GROUP = "/v1/streams/orders/groups/billing"
SMALL = {"memory_bytes_max": 4 * 2**20}
POLICY = {"max_deliveries": 1, "dead_letter_stream": "dead"}


def targets() -> Iterator[tuple[str, str]]:
    """Yield the title of each panel with each of its queries, for all streams and groups."""
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            query = re.sub(r"\$(job|instance|stream|group)\b", ".*", target["expr"])
            yield panel["title"], query.replace("$__rate_interval", "1m")


def choices() -> Iterator[tuple[str, str]]:
    """Yield the query of each list of choices: the series and the label whose values it has."""
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            query = re.sub(r"\$\w+", ".*", variable["query"]["query"])
            match = re.fullmatch(r"label_values\((.+), (\w+)\)", query)
            assert match is not None, query
            yield match[1], match[2]


def test_the_rules_are_valid_and_do_what_their_tests_say() -> None:
    promtool = program("promtool")
    checks = [
        run(promtool, "check", "rules", RULES),
        run(promtool, "check", "config", FOLDER / "prometheus.yml"),
        run(promtool, "test", "rules", FOLDER / "headgate.rules.test.yml"),
    ]
    for outcome in checks:
        assert outcome.returncode == 0, outcome.stdout + outcome.stderr


def test_every_alert_is_tested() -> None:
    alerts = re.findall(r"- alert: (\w+)", RULES.read_text())
    tests = (FOLDER / "headgate.rules.test.yml").read_text()
    assert alerts
    assert [name for name in alerts if f"alertname: {name}\n        exp_alerts" not in tests] == []


@asynccontextmanager
async def scraping(gateway: Gateway, folder: Path) -> AsyncIterator[httpx.AsyncClient]:
    """Run Prometheus as it is deployed, every second; yields a client of it."""
    for path in FOLDER.glob("*.yml"):
        shutil.copy(path, folder)
    config = (folder / "prometheus.yml").read_text()
    config = config.replace(": 15s", ": 1s").replace(
        "127.0.0.1:8080", httpx.URL(gateway.url).netloc.decode()
    )
    (folder / "prometheus.yml").write_text(config)
    [port] = free_ports(1)
    process = await asyncio.create_subprocess_exec(
        program("prometheus"),
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{port}",
        stderr=subprocess.DEVNULL,
    )
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=30) as http:
            yield http
    finally:
        process.terminate()
        await process.wait()


async def fill_with_cold(data_dir: Path) -> None:
    """Leave a stream that has more on disk than a small gateway keeps in memory."""
    gateway = await Gateway.start(data_dir)
    pick = Random(1)
    batch = [{"fields": {"v": pick.randbytes(2000).hex()}} for _ in range(1000)]
    async with httpx.AsyncClient(base_url=gateway.url, timeout=30) as http:
        await http.post(f"{COLD}/batch", json=batch)
        await http.post("/v1/admin/rewrite")
        while not (await http.get("/v1/admin/journal")).json()["rewrite_count"]:
            await asyncio.sleep(0.1)
    await gateway.stop()


async def work(http: httpx.AsyncClient) -> None:
    """Append, deliver, acknowledge, fail, and read what is cold, until cancelled."""
    cold = "0"
    group = {"start": "0", "create_stream": True, "policy": POLICY}
    assert (await http.put(GROUP, json=group)).status_code == 201
    while True:
        await http.post("/v1/streams/orders/entries/batch", json=[{"fields": {"v": "1"}}] * 3)
        read = (await http.post(f"{GROUP}/read?consumer=ana", json={"limit": 3})).json()
        acked, failed, held = [entry["id"] for entry in read["entries"]]
        await http.post(f"{GROUP}/ack", json={"ids": [acked]})
        await http.post(f"{GROUP}/nack?consumer=ana", json={"ids": [failed]})
        claim = {"ids": [held], "min_idle_ms": 0}
        await http.post(f"{GROUP}/claim?consumer=ben", json=claim)
        await http.get("/v1/streams/nothing")
        page = (await http.get(f"{COLD}?after={cold}&limit=100")).json()["entries"]
        cold = page[-1]["id"] if page else "0"
        await asyncio.sleep(0.05)


async def result_of(prometheus: httpx.AsyncClient, query: str) -> list[Any]:
    try:
        answer = await prometheus.get("/api/v1/query", params={"query": query})
    except httpx.TransportError:  # it is about to start
        return []
    if answer.status_code == 503:
        return []
    assert answer.status_code == 200, f"{query}: {answer.text}"
    values = answer.json()["data"]["result"]
    return [value for value in values if value["value"][1] != "NaN"]


async def until_shown(prometheus: httpx.AsyncClient, name: str, query: str) -> list[Any]:
    """Ask until a query has a result."""
    try:
        async with asyncio.timeout(WITHIN_S):
            while not (result := await result_of(prometheus, query)):
                await asyncio.sleep(0.2)
    except TimeoutError:
        pytest.fail(f"{name}: no data for {query}")
    return result


async def check_metrics(metrics: bytes) -> None:
    """Let promtool look for names and types that Prometheus would not like."""
    promtool = [program("promtool"), "check", "metrics"]
    outcome = await asyncio.to_thread(
        subprocess.run, promtool, input=metrics, capture_output=True, check=False
    )
    assert (outcome.returncode, outcome.stderr) == (0, b"")


async def test_an_alert_fires_and_every_panel_of_the_dashboard_has_data(tmp_path: Path) -> None:
    program("prometheus")
    await fill_with_cold(tmp_path / "data")
    gateway = await Gateway.start(
        tmp_path / "data", {"open_metrics": True, "bucket": f"file://{tmp_path}/bucket", **SMALL}
    )
    async with (
        httpx.AsyncClient(base_url=gateway.url, timeout=30) as http,
        scraping(gateway, tmp_path) as prometheus,
    ):
        working = asyncio.create_task(work(http))
        try:
            fired = 'ALERTS{alertname="HeadgateDeadLetters",alertstate="firing"}'
            [alert] = await until_shown(prometheus, "alert", fired)
            for title, query in targets():
                await until_shown(prometheus, title, query)
            await check_metrics((await http.get("/metrics")).content)
            for series, label in choices():
                chosen = {"match[]": series}
                answer = await prometheus.get(f"/api/v1/label/{label}/values", params=chosen)
                assert answer.json()["data"], series
        finally:
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
    await gateway.stop()

    assert alert["metric"]["messaging_destination_name"] == "orders"
    assert alert["metric"]["messaging_consumer_group_name"] == "billing"
