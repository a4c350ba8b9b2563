"""The endpoint `/mcp`: rights, bounds, pages of other sites, and agents that leave."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from headgate.app.auth.grants import Grant, UsageLimits, Verb
from headgate.engine.clock import SystemClock
from tests.api.auth.secured import Secured, secured
from tests.api.conftest import Live, refusal_of
from tests.api.mcp.agent import over_http
from tests.conditions import WITHIN_S, until

JSON = {"Content-Type": "application/json", "Accept": "application/json"}
READ = Grant(streams=["orders*"], do=[Verb.READ])
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


def post(
    http: httpx.AsyncClient, tool: str, *, version: str = "2025-06-18", **arguments: Any
) -> Any:
    """Call a tool in a request of its own, in one of the two ages of the protocol."""
    params: dict[str, Any] = {"name": tool, "arguments": arguments}
    headers = {**JSON, "MCP-Protocol-Version": version}
    if version == "2026-07-28":
        params["_meta"] = META
        headers |= {"Mcp-Method": "tools/call", "Mcp-Name": tool}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return http.post("/mcp", content=json.dumps(message), headers=headers)


def text_in(answer: httpx.Response) -> str:
    """Return the text of the result of a tool."""
    assert answer.status_code == 200, answer.text
    text: str = answer.json()["result"]["content"][0]["text"]
    return text


@pytest.fixture
async def keyed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> AsyncIterator[Secured]:
    caplog.set_level(logging.INFO, "headgate.audit")
    async with secured(tmp_path) as running:
        yield running


async def test_an_agent_has_the_rights_of_its_key_and_no_others(
    keyed: Secured, caplog: pytest.LogCaptureFixture
) -> None:
    await keyed.live.append("orders", "a")
    await keyed.live.append("secrets", "a")
    async with over_http(keyed.live.url, await keyed.key(READ, name="reader")) as agent:
        assert len((await agent.call("read_entries", stream="orders"))["entries"]) == 1
        streams = (await agent.call("list_streams"))["streams"]
        assert [stream["name"] for stream in streams] == ["orders"]
        resources = (await agent.client.list_resources()).resources
        assert [resource.name for resource in resources] == ["orders"]
        refusal = await agent.refusal("append_entry", stream="orders", fields={"v": "b"})
        assert refusal.startswith("forbidden: ")
        assert "append" in refusal
        for stream in ("secrets", "none"):
            assert "forbidden" in await agent.refusal("read_entries", stream=stream)
        refusal = await agent.refusal("delete_stream", stream="orders", confirm=True)
        assert "manage" in refusal
    denied = [record for record in caplog.records if record.name == "headgate.audit"]
    assert {vars(record)["principal"] for record in denied} == {"reader"}
    assert {vars(record)["client"] for record in denied} == {"127.0.0.1"}
    assert {vars(record)["operation"] for record in denied} >= {"appendEntry", "deleteStream"}


async def test_without_a_good_key_nothing_is_told(keyed: Secured) -> None:
    for token in (None, "hg_wrong"):
        async with keyed.client(token) as http:
            answer = await post(http, "list_streams")
            assert refusal_of(answer)[:2] == (401, "unauthenticated")
            assert answer.headers["WWW-Authenticate"].startswith("Bearer")
    key = await keyed.key(READ)
    await keyed.revoke(key)
    await until(lambda: not keyed.knows(key))
    async with keyed.client(key) as http:
        assert (await post(http, "list_streams")).status_code == 401


async def test_a_wait_ends_with_its_key(keyed: Secured) -> None:
    await keyed.live.append("orders", "a")
    key = await keyed.key(READ)
    async with keyed.client(key) as http:
        waiting = asyncio.create_task(post(http, "follow_stream", stream="orders", wait_ms=60_000))
        await keyed.live.until_waiting(1)
        await keyed.revoke(key)
        async with asyncio.timeout(WITHIN_S):
            assert refusal_of(await waiting)[:2] == (401, "unauthenticated")
    await keyed.live.until_waiting(0)


async def test_a_tool_counts_for_two_requests(
    keyed: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = UsageLimits(requests_per_s_max=3)
    now_ms = SystemClock().monotonic_ms()
    async with keyed.client(await keyed.key(READ, limits=limits)) as http:
        monkeypatch.setattr(SystemClock, "monotonic_ms", lambda _: now_ms)  # nothing is refilled
        assert json.loads(text_in(await post(http, "list_streams"))) is not None
        answer = await post(http, "list_streams")
        assert text_in(answer).startswith("rate_limited: ")
        assert answer.json()["result"]["isError"] is True
        assert refusal_of(await post(http, "list_streams"))[:2] == (429, "rate_limited")


@pytest.mark.parametrize("version", ["2025-06-18", "2026-07-28"])
async def test_what_an_agent_that_left_was_to_get_goes_to_the_next(
    live: Live, version: str
) -> None:
    await live.create_group("orders", "g")
    place = {"stream": "orders", "group": "g"}
    async with httpx.AsyncClient(base_url=live.url, timeout=60) as http:
        call = post(http, "read_group", version=version, **place, consumer="gone", wait_ms=60_000)
        reading = asyncio.create_task(call)
        await live.until_waiting(1)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
    await live.until_waiting(0)
    [entry_id] = await live.append("orders", "a")
    [entry] = (await live.read_group("orders", "g", "next", wait_ms=60_000))["entries"]
    assert (entry["id"], entry["deliveries"]) == (entry_id, 1)


async def test_many_agents_wait_at_once_and_hold_nobody(live: Live) -> None:
    await live.append("orders", "a")
    async with httpx.AsyncClient(base_url=live.url, timeout=60) as http:
        calls = [post(http, "follow_stream", stream="orders", wait_ms=60_000) for _ in range(20)]
        waiting = [asyncio.create_task(call) for call in calls]
        await live.until_waiting(20)
        [entry_id] = await live.append("orders", "b")
        read = [json.loads(text_in(answer)) for answer in await asyncio.gather(*waiting)]
    assert [[entry["id"] for entry in each["entries"]] for each in read] == [[entry_id]] * 20


async def test_pages_of_other_sites_and_foreign_names_are_refused(live: Live) -> None:
    for headers in ({"Origin": "http://evil.example"}, {"Host": "evil.example"}):
        answer = await live.http.post("/mcp", json={}, headers=headers)
        assert refusal_of(answer)[:2] == (403, "origin_refused")
    form = {"Content-Type": "text/plain"}
    answer = await live.http.post("/mcp", content="{}", headers=form)
    assert refusal_of(answer)[:2] == (415, "unsupported_media_type")


async def test_a_body_has_a_bound_and_no_other_method_is_served(live: Live) -> None:
    answer = await live.http.post("/mcp", content=b" " * (256 * 1024 + 1), headers=JSON)
    assert refusal_of(answer)[:2] == (413, "too_large")
    for method in ("GET", "DELETE"):
        answer = await live.http.request(method, "/mcp", headers=JSON)
        assert refusal_of(answer)[:2] == (405, "method_not_allowed")
        assert answer.headers["Allow"] == "POST"


@pytest.mark.parametrize("version", ["2025-06-18", "2026-07-28"])
async def test_what_is_no_message_is_an_error_of_the_protocol(live: Live, version: str) -> None:
    headers = {**JSON, "MCP-Protocol-Version": version}
    for body in (b"", b"{", b"[]", b"null", b"1", b'{"jsonrpc":"2.0"}', b"[" * 100_000, b"\xff"):
        answer = await live.http.post("/mcp", content=body, headers=headers)
        assert answer.status_code == 400, body[:9]
        assert answer.json()["error"]["code"] < 0
        assert "Traceback" not in answer.text
    message = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
    answer = await live.http.post("/mcp", content=message, headers=headers)
    assert (answer.status_code, answer.content) == (202, b"")


async def test_a_defect_is_told_without_its_text(
    live: Live, caplog: pytest.LogCaptureFixture
) -> None:
    async def fails(*_: object, **__: object) -> None:
        raise RuntimeError("inside")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headgate.client.client.AsyncClient.request", fails)
        answer = await post(live.http, "list_streams")
    assert answer.json()["error"]["message"] == "The tool list_streams failed."
    assert "inside" in caplog.text


HIDING = """
import sys
sys.modules["mcp"] = None
from headgate.app.cli import main
main(sys.argv[1:])
"""


async def test_without_its_packages_the_extra_is_named() -> None:
    pipe = asyncio.subprocess.PIPE
    command = sys.executable, "-c", HIDING
    process = await asyncio.create_subprocess_exec(
        *command, "serve", "--port", "0", "--data-dir", ":memory:", stderr=pipe
    )
    try:
        assert process.stderr is not None
        async with asyncio.timeout(WITHIN_S):
            line = ""
            while "Headgate is at " not in line:
                line = (await process.stderr.readline()).decode()
                assert line, "it has ended"
        url = line.partition("Headgate is at ")[2].partition(",")[0]
        async with httpx.AsyncClient(base_url=url, timeout=30) as http:
            answer = await post(http, "list_streams")
        assert refusal_of(answer)[:2] == (501, "extra_missing")
        assert "headgate[mcp]" in answer.json()["detail"]
    finally:
        process.terminate()
        await process.wait()
    process = await asyncio.create_subprocess_exec(*command, "mcp", stderr=pipe)
    _, error = await process.communicate()
    assert process.returncode == 1
    assert b"headgate[mcp] brings it" in error
