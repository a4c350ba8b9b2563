"""Whatever happens to a gateway, its standard error has JSON objects only, one in each line."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from tests.conditions import until
from tests.key_files import EVERYTHING, Keys
from tests.processes.gateway import Gateway, headgate

RED = "\x1b[31m\x9b2J"
NOISY = {"log_level": "debug", "log_requests": True}


def parsed(lines: Sequence[str]) -> list[dict[str, Any]]:
    """Return the lines, each of which must be a JSON object without a control character."""
    assert all(line.isascii() and line.isprintable() for line in lines), lines
    values = [json.loads(line) for line in lines]
    assert all({"time", "level", "logger", "event"} <= value.keys() for value in values)
    return values


async def raw(gateway: Gateway, data: bytes) -> None:
    url = httpx.URL(gateway.url)
    reader, writer = await asyncio.open_connection(url.host, url.port)
    writer.write(data)
    with suppress(TimeoutError, OSError):
        async with asyncio.timeout(0.3):
            await reader.read()
    writer.close()


async def strangers_call(gateway: Gateway, token: str) -> None:
    """Send bad requests: escapes, nonsense, bad credentials, half a request."""
    red = RED.encode("latin-1")
    await raw(gateway, b"GET /" + red + b" HTTP/1.1\r\n\r\n")
    await raw(gateway, b"GET / HTTP/1.1\r\nhost: x\r\nuser-agent: " + red + b"\r\n\r\n")
    await raw(gateway, b"POST /v1/streams/a/entries HTTP/1.1\r\ncontent-length: 9\r\n\r\n{")
    headers = {"authorization": f"Bearer {token}", "x-request-id": "mine-1"}
    async with httpx.AsyncClient(base_url=gateway.url, headers=headers) as http:
        await http.post("/v1/streams/orders/entries", json={"fields": {"a": RED}})
        await http.delete(f"/v1/streams/{quote(RED)}")
        await http.get("/v1/streams?ticket=secret")
        await http.get(f"/{quote(RED)}", headers=[(b"authorization", b"Bearer " + red)])
        await http.get("/v1/streams", headers=[(b"origin", b"https://" + red)])
    for path in ("/v1/ws", "/v1/nothing/ws"):
        with suppress(WebSocketException):
            async with connect(f"ws{gateway.url.removeprefix('http')}{path}") as socket:
                await socket.send(RED)
                await socket.recv()


def appends_in(lines: Sequence[str]) -> list[dict[str, Any]]:
    """Return the lines about requests that have appended an entry."""
    return [
        line
        for line in parsed(lines)
        if line["event"] == "request" and line["route"] == "/v1/streams/{stream}/entries"
        if line["status"] == 201
    ]


async def until_append_is_written(gateway: Gateway) -> None:
    """Return once the line about an append is there: it is written soon, not at once."""
    await until(lambda: appends_in(gateway.log_lines))


@pytest.mark.parametrize("workers", [1, 2])
async def test_each_line_is_json_whatever_strangers_do(tmp_path: Path, workers: int) -> None:
    keys = Keys(tmp_path / "keys.json")
    token = keys.add(EVERYTHING, name="ann")
    settings = {**NOISY, "keys_file": keys.path, "workers": workers, "prot": 9000}
    gateway = await Gateway.start(tmp_path / "data", settings)
    await strangers_call(gateway, token)
    await until_append_is_written(gateway)
    gateway.signal(signal.SIGHUP)
    if workers > 1:
        os.kill(gateway.process_ids()["worker 1"], signal.SIGKILL)
    await strangers_call(gateway, token)
    await gateway.stop()

    lines = parsed(gateway.log_lines)
    assert not any("secret" in line for line in gateway.log_lines)
    [appended, _] = appends_in(gateway.log_lines)
    assert appended["method"] == "POST"
    assert appended["request_id"] == "mine-1"
    assert appended["principal"] == "ann"
    assert all(line["ms"] >= 0 for line in lines if line["event"] == "request")


async def test_a_request_has_no_line_unless_that_is_asked_for(tmp_path: Path) -> None:
    gateway = await Gateway.start(tmp_path)
    async with httpx.AsyncClient(base_url=gateway.url) as http:
        await http.get("/v1/streams")
    await gateway.stop()

    assert "request" not in [line["event"] for line in parsed(gateway.log_lines)]


async def test_a_start_says_what_was_recovered(tmp_path: Path) -> None:
    first = await Gateway.start(tmp_path)
    async with httpx.AsyncClient(base_url=first.url) as http:
        await http.put("/v1/streams/orders/groups/g", json={"create_stream": True})
        await http.post("/v1/streams/orders/entries", json={"fields": {"a": "1"}})
        await http.post("/v1/streams/orders/groups/g/read?consumer=me", json={})
    await first.stop()
    again = await Gateway.start(tmp_path)
    await again.stop()

    [recovered] = [line for line in parsed(again.log_lines) if line["event"] == "recovered"]
    counts = {name: recovered[name] for name in ("streams", "entries", "pending")}
    assert counts == {"streams": 1, "entries": 1, "pending": 1}
    assert recovered["bytes"] > 0
    assert recovered["seconds"] >= 0


@pytest.mark.parametrize(
    "words",
    [["--port", "none"], ["--nonsense"], ["--host", "0.0.0.0"], ["--data-dir", "/dev/null"]],
)
def test_a_start_that_fails_says_why_in_json(words: list[str], tmp_path: Path) -> None:
    ended = headgate("serve", "--port", "0", "--data-dir", tmp_path, *words)

    assert ended.returncode in (1, 2)
    [line] = parsed(ended.stderr.splitlines())
    assert line["level"] == "ERROR"
