"""Operations: health, limits, metrics, documents, methods, pages of problems, ids of requests."""

import asyncio
import json
import re
import uuid
from pathlib import Path
from random import Random
from typing import Any, get_args

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from headgate.app.settings import Settings
from headgate.app.wire.explanations import EXPLANATIONS
from headgate.app.wire.problems import Code
from headgate.engine.limits import PATTERN_BYTES_MAX
from tests.api.conftest import Live, connected, problem_in, refusal_of, running
from tests.api.live.event_source import events_of
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
    abilities = ["bulk", "claim_feed", "commands", "patterns", "policies", "schemas"]
    assert limits.pop("abilities") == abilities
    assert limits.pop("rules") == ["fair_groups", "tables", "pattern_groups"]
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
        if asset != "/openapi.json":  # it is taken for nothing else
            assert answer.headers["x-content-type-options"] == "nosniff"


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


async def test_each_code_is_explained() -> None:
    assert list(EXPLANATIONS) == list(get_args(Code))
    for code, explanation in EXPLANATIONS.items():
        for text in (explanation.meaning, *explanation.causes, explanation.remedy):
            assert text.endswith((".", ":")), f"{code}: {text}"
            assert text.count("`") % 2 == 0, f"{code}: {text}"


async def test_the_type_of_a_problem_leads_to_its_page(shared: Live) -> None:
    problem = (await shared.http.get("/v1/streams/nothing")).json()
    text = await shared.http.get(problem["type"])
    assert text.status_code == 200
    assert text.headers["content-type"].startswith("text/plain")
    assert text.text.startswith("stream_not_found (404)\n  The stream does not exist.\n")
    page = await shared.http.get(problem["type"], headers={"Accept": "text/html"})
    assert page.headers["content-type"].startswith("text/html")
    assert "<code>stream_not_found</code>" in page.text
    assert "script-src 'none'" in page.headers["content-security-policy"]
    assert page.headers["vary"] == "Accept"


@pytest.mark.parametrize("accept", ["*/*", "text/html"])
async def test_all_problems_are_on_a_page(shared: Live, accept: str) -> None:
    page = (await shared.http.get("/problems", headers={"Accept": accept})).text
    assert all(code in page for code in get_args(Code))
    assert "<!--" not in page
    assert accept == "*/*" or "`" not in page


async def test_what_is_no_code_is_not_found(shared: Live) -> None:
    answer = await shared.http.get("/problems/" + "<b>" * 100, headers={"Accept": "text/html"})
    assert answer.status_code == 404
    assert answer.json()["code"] == "not_found"


MINE = {"X-Request-Id": "checkout-42"}


async def test_an_answer_has_the_id_of_its_request(shared: Live) -> None:
    for path in ("/healthz", "/v1/streams", "/docs", "/openapi.json", "/nothing"):
        chosen = await shared.http.get(path, headers=MINE)
        made = await shared.http.get(path, headers={"X-Request-Id": "not one"})
        assert chosen.headers.get_list("x-request-id") == ["checkout-42"], path
        assert uuid.UUID(made.headers["x-request-id"]).version == 7


async def test_a_problem_repeats_it(shared: Live) -> None:
    for method, path in (
        ("GET", "/v1/streams/none"),
        ("GET", "/v1/streams?limit=none"),
        ("POST", "/v1/streams"),
        ("GET", "/nothing"),
    ):
        answer = await shared.http.request(method, path, headers=MINE)
        assert problem_in(answer)["request_id"] == "checkout-42"
    headers = {**MINE, "Origin": "https://stranger.example"}
    answer = await shared.http.get("/v1/streams", headers=headers)
    assert (answer.status_code, answer.json()["request_id"]) == (403, "checkout-42")


async def test_what_cannot_be_parsed_is_answered_with_one(shared: Live) -> None:
    async with connected(shared) as (reader, writer):
        writer.write(b"nonsense\r\n\r\n")
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    request_id = json.loads(body)["request_id"]
    assert f"x-request-id: {request_id}".encode() in head.splitlines()


async def test_problems_of_a_socket_have_that_of_its_handshake(shared: Live) -> None:
    async with connect(f"{shared.ws_url}/v1/ws", additional_headers=MINE) as socket:
        await socket.recv()
        await socket.send('{"type": "subscribe", "sub": "a", "stream": "none"}')
        refused = json.loads(await socket.recv())
        await socket.send("nonsense")
        last = json.loads(await socket.recv())
        assert socket.response is not None
        assert socket.response.headers.get_all("x-request-id") == ["checkout-42"]

    assert refused["problem"]["request_id"] == last["problem"]["request_id"] == "checkout-42"


async def test_a_handshake_that_is_refused_has_one(shared: Live) -> None:
    with pytest.raises(InvalidStatus) as refused:
        await connect(f"{shared.ws_url}/v1/nothing", additional_headers=MINE)

    assert refused.value.response.headers["X-Request-Id"] == "checkout-42"


async def test_the_problem_that_ends_events_has_that_of_their_request(shared: Live) -> None:
    await shared.append("orders", "1")
    async with events_of(shared, "/v1/streams/orders/events", **MINE) as events:
        await events.next("ready", "caught_up")
        await shared.http.delete("/v1/streams/orders")
        problem = await events.next("problem")

    assert problem["request_id"] == "checkout-42"
