"""Operations: health, limits, metrics, documents; and which pages may call at all."""

import asyncio
import re
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest

from headgate.app.settings import Settings
from headgate.engine.limits import PATTERN_BYTES_MAX
from tests.api.conftest import Live, problem_in, refusal_of, running
from tests.servers.chosen import URL, is_behind_socket

pytestmark = pytest.mark.asyncio(loop_scope="session")

ORDERS = "/v1/streams/orders"
APP = "https://app.example"


def sample(metrics: str, name: str) -> float:
    """Return the value of a sample, 0 if it is not there."""
    match = re.search(rf"^{re.escape(name)} (\S+)$", metrics, re.MULTILINE)
    return float(match[1]) if match else 0.0


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
async def test_a_load_balancer_may_ask_by_head(shared: Live, path: str) -> None:
    answer = await shared.http.head(path)

    assert (answer.status_code, answer.content) == (200, b"")


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
async def test_a_running_gateway_is_alive_and_ready(shared: Live, path: str) -> None:
    answer = await shared.http.get(path)

    durable = "disk" if URL is None else "nothing"
    promise = {"durable": durable} if path == "/readyz" else {}
    assert (answer.status_code, answer.json()) == (200, {"status": "ok", **promise})


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


async def test_metrics_count_requests_by_operation_and_status() -> None:
    async with running(Settings()) as live:
        await live.append("orders", "1")
        await live.http.get("/v1/streams/nothing")
        await live.http.get("/no/such/path")
        answer = await live.http.get("/metrics")

    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    for operation, status in [("appendEntries", 201), ("describeStream", 404), ("none", 404)]:
        labels = f'{{operation="{operation}",status="{status}"}}'
        assert sample(answer.text, f"headgate_requests_total{labels}") == 1
    count = 'headgate_request_seconds_count{operation="appendEntries"}'
    assert sample(answer.text, count) == 1


async def test_metrics_count_entries_however_they_are_read() -> None:
    async with running(Settings()) as live:
        await live.create_group("orders", "billing")
        await live.append("orders", *"abc")
        await live.http.get(f"{ORDERS}/entries?limit=2")
        await live.http.get(f"{ORDERS}/entries", headers={"Accept": "application/x-ndjson"})
        await live.http.get(f"{ORDERS}/entries?after=0&limit=1")
        await live.http.post("/v1/read", json={"streams": [{"stream": "orders"}]})
        await live.read_group("orders", "billing", "worker")
        await live.http.post("/v1/commands", json=["XRANGE", "orders", "-", "+"])
        pipeline = [["XREVRANGE", "orders", "+", "-", "COUNT", "1"], ["XLEN", "nothing"]]
        await live.http.post("/v1/commands/pipeline", json=pipeline)
        await live.http.post("/v1/commands/multi-exec", json=[["XRANGE", "orders", "-", "+"]])
        metrics = (await live.http.get("/metrics")).text

    assert sample(metrics, "headgate_entries_appended_total") == 3
    assert sample(metrics, 'headgate_entries_delivered_total{transport="rest"}') == 12
    assert sample(metrics, 'headgate_entries_delivered_total{transport="commands"}') == 7


async def test_metrics_count_who_waits() -> None:
    async with running(Settings()) as live:
        await live.http.put(ORDERS)
        poll = f"{ORDERS}/entries?after=$&wait_ms=30000"
        waiting = [asyncio.create_task(live.http.get(poll)) for _ in range(3)]
        await live.until_waiting(3)
        metrics = (await live.http.get("/metrics")).text
        await live.append("orders", "1")
        await asyncio.gather(*waiting)
        later = (await live.http.get("/metrics")).text

    assert sample(metrics, "headgate_waiters") == 3
    assert sample(later, "headgate_waiters") == 0
    assert sample(later, "headgate_tasks") < sample(metrics, "headgate_tasks")


async def rewritten(live: Live) -> dict[str, Any]:
    """Rewrite the journal; returns its state after that."""
    status: dict[str, Any] = (await live.http.post("/v1/admin/rewrite")).json()
    async with asyncio.timeout(20):
        while not status["rewrite_count"]:
            await asyncio.sleep(0.01)
            status = (await live.http.get("/v1/admin/journal")).json()
    return status


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


async def test_without_a_disk_nothing_is_cold() -> None:
    async with running(Settings()) as live:
        await live.append("orders", "1")
        metrics = (await live.http.get("/metrics")).text

    assert "headgate_cold" not in metrics
    assert "headgate_journal" not in metrics


async def test_what_a_client_asks_for_is_no_label() -> None:
    async with running(Settings(observe=["other*"])) as live:
        await live.append("a-stream-of-mine", "1")
        await live.http.get("/a-path-of-mine")
        metrics = (await live.http.get("/metrics")).text

    assert "of-mine" not in metrics


async def test_long_polls_and_streams_are_counted_and_not_timed() -> None:
    async with running(Settings()) as live:
        await live.append("orders", "1")
        await live.http.get(f"{ORDERS}/entries?after=$&wait_ms=1")
        await live.http.get(f"{ORDERS}/entries?after=0")
        async with live.http.stream("GET", f"{ORDERS}/events"):
            pass
        metrics = (await live.http.get("/metrics")).text

    polls = '{operation="readEntries",status="200"}'
    assert sample(metrics, f"headgate_requests_total{polls}") == 2
    assert sample(metrics, 'headgate_request_seconds_count{operation="readEntries"}') == 1
    assert sample(metrics, 'headgate_request_seconds_count{operation="followStream"}') == 0


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


async def test_every_operation_has_an_id_of_its_own_and_a_description(shared: Live) -> None:
    document = (await shared.http.get("/openapi.json")).json()

    operations = [operation for path in document["paths"].values() for operation in path.values()]
    ids = [operation["operationId"] for operation in operations]
    assert len(set(ids)) == len(ids) > 30
    assert all(re.fullmatch(r"[a-z][A-Za-z]+", operation_id) for operation_id in ids)
    assert all(operation["description"] for operation in operations)


# Methods


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/v1/streams", {"GET"}),
        (ORDERS, {"GET", "PUT", "PATCH", "DELETE"}),
        (f"{ORDERS}/trim", {"POST"}),
        (f"{ORDERS}/entries", {"GET", "POST"}),
        (f"{ORDERS}/entries/1-0", {"GET", "DELETE"}),
        (f"{ORDERS}/entries/batch", {"GET", "POST", "DELETE"}),  # `batch` could be an id
        (f"{ORDERS}/groups", {"GET"}),
        (f"{ORDERS}/groups/billing", {"GET", "PUT", "PATCH", "DELETE"}),
        (f"{ORDERS}/groups/billing/consumers/c", {"PUT", "DELETE"}),
        (f"{ORDERS}/groups/billing/read", {"POST"}),
        (f"{ORDERS}/groups/billing/pending", {"GET"}),
        ("/v1/read", {"POST"}),
        ("/healthz", {"GET", "HEAD"}),
    ],
)
async def test_a_wrong_method_is_told_the_right_ones(
    shared: Live, path: str, methods: set[str]
) -> None:
    for method in ("OPTIONS", "TRACE", "HEAD", "GET", "POST", "PUT", "PATCH", "DELETE"):
        if method not in methods:
            answer = await shared.http.request(method, path)
            assert answer.status_code == 405, method
            assert set(answer.headers["Allow"].split(", ")) == methods
            if method != "HEAD":
                assert refusal_of(answer) == (405, "method_not_allowed", "")


async def test_an_answer_to_head_has_no_body(shared: Live) -> None:
    await shared.append("orders", "1")

    answer = await shared.http.head(ORDERS)

    assert (answer.status_code, answer.content) == (405, b"")


@pytest.mark.parametrize("path", ["/v1", "/v2/streams", "/v1/streams/", f"{ORDERS}/", "//"])
async def test_an_unknown_path_is_not_found(shared: Live, path: str) -> None:
    await shared.append("orders", "1")

    answer = await shared.http.request("DELETE", httpx.URL(shared.url + path))

    assert refusal_of(answer) == (404, "not_found", "")
    assert (await shared.stream("orders"))["length"] == 1


# Hosts and origins


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:1", "127.0.0.1:8080", "[::1]", "a.localhost"]
)
async def test_loopback_names_are_answered(shared: Live, host: str) -> None:
    assert (await shared.http.get("/healthz", headers={"Host": host})).status_code == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "[", "0.0.0.0", "x:"],
)
async def test_a_name_that_may_be_anybodys_is_refused(shared: Live, host: str) -> None:
    answer = await shared.http.put(ORDERS, headers={"Host": host})

    assert refusal_of(answer) == (403, "origin_refused", "")
    assert "allowed_hosts" in problem_in(answer)["detail"]
    assert (await shared.http.get(ORDERS)).status_code == 404


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
async def test_a_probe_is_answered_under_every_name(shared: Live, path: str) -> None:
    for host in ("10.0.0.7:8080", "gateway.internal", "[fd00::7]:8080"):
        assert (await shared.http.get(path, headers={"Host": host})).status_code == 200
        page = {"Host": host, "Origin": f"http://{host}"}
        assert refusal_of(await shared.http.get(path, headers=page)) == (403, "origin_refused", "")


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "", "http://localhost:1", "http://[::1", "x", "://"]
)
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
async def test_a_page_from_elsewhere_is_refused(shared: Live, method: str, origin: str) -> None:
    headers = {"Origin": origin, "Access-Control-Request-Method": "POST"}

    answer = await shared.http.request(method, "/v1/streams", headers=headers)

    assert refusal_of(answer) == (403, "origin_refused", "")
    assert "Access-Control-Allow-Origin" not in answer.headers


async def test_the_gateways_own_pages_may_call(shared: Live) -> None:
    answer = await shared.http.get("/healthz", headers={"Origin": shared.url})

    assert answer.status_code == 200


async def test_a_page_on_the_allow_list_may_call_and_see_what_it_needs() -> None:
    async with running(Settings(allowed_origins=[APP])) as live:
        await live.append("orders", "1")
        allowed = await live.http.get(ORDERS, headers={"Origin": APP})
        refused = await live.http.get("/v1/streams/nothing", headers={"Origin": APP})
        other = await live.http.get(ORDERS, headers={"Origin": "https://evil.example"})

    for answer in (allowed, refused):
        assert answer.headers["Access-Control-Allow-Origin"] == APP
        assert "Origin" in answer.headers["Vary"]
        exposed = answer.headers["Access-Control-Expose-Headers"]
        known = {"ETag", "Location", "RateLimit", "RateLimit-Policy", "Retry-After"}
        assert known | {"WWW-Authenticate"} <= set(exposed.split(", "))
        assert answer.headers["Access-Control-Allow-Credentials"] == "true"  # cookies
    assert refusal_of(refused) == (404, "stream_not_found", "")
    assert refusal_of(other) == (403, "origin_refused", "")


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_a_browser_that_asks_first_is_told_what_it_may_do(method: str) -> None:
    asking = {
        "Origin": APP,
        "Access-Control-Request-Method": method,
        "Access-Control-Request-Headers": "authorization, content-type, if-match",
    }
    async with running(Settings(allowed_origins=[APP])) as live:
        answer = await live.http.options(ORDERS, headers=asking)

    assert answer.status_code == 200
    assert answer.headers["Access-Control-Allow-Origin"] == APP
    assert method in answer.headers["Access-Control-Allow-Methods"]
    allowed = answer.headers["Access-Control-Allow-Headers"].lower()
    assert all(name in allowed for name in ("authorization", "content-type", "if-match"))
    assert answer.headers["Access-Control-Allow-Credentials"] == "true"


async def test_configured_hosts_are_answered() -> None:
    async with running(Settings(allowed_hosts=["Gateway.example"])) as live:
        good = await live.http.get("/v1/limits", headers={"Host": "gateway.EXAMPLE:80"})
        bad = await live.http.get("/v1/limits", headers={"Host": "other.example"})

    assert (good.status_code, bad.status_code) == (200, 403)


async def test_a_star_answers_to_any_host_and_any_page() -> None:
    async with running(Settings(allowed_hosts=["*"], allowed_origins=["*"])) as live:
        headers = {"Host": "any.example", "Origin": "https://other.example"}
        answer = await live.http.get("/healthz", headers=headers)

    assert answer.status_code == 200
    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    assert "Access-Control-Allow-Credentials" not in answer.headers
