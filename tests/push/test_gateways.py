"""Several gateways over the same servers push a group: one at a time, and another when it dies."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography.fernet import Fernet

from deploy.local_cluster.server import Server
from tests.conditions import eventually, until
from tests.processes.gateway import Gateway
from tests.receiver import Notice, Receiver

pytestmark = pytest.mark.away

GROUP = "/v1/streams/orders/groups/billing"
COUNT = 300


@pytest.fixture
def settings(tmp_path: Path, valkey_9: Server) -> dict[str, Any]:
    key = tmp_path / "push.key"
    key.write_bytes(Fernet.generate_key())
    return {
        "backend": valkey_9.url,
        "redis_prefix": f"{tmp_path.name}:",
        "redis_lease_ms": 1_000,
        "push_allow": "127.0.0.0/8",
        "push_key_file": key,
    }


async def test_another_gateway_goes_on_and_each_attempt_is_counted_once(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    def respond(notice: Notice) -> tuple[str, bytes]:
        number, deliveries = notice.json["fields"]["v"], notice.json["deliveries"]
        attempts[number].append(deliveries)
        return "200 OK", b""

    attempts: dict[str, list[int]] = {str(number): [] for number in range(COUNT)}
    receiver = Receiver()
    receiver.respond = respond
    await receiver.open()
    gateways = [await Gateway.start(tmp_path / str(number), settings) for number in range(2)]
    async with httpx.AsyncClient(base_url=gateways[1].url, timeout=30) as http:
        await http.put(GROUP, json={"start": "0", "create_stream": True})
        push = {"url": receiver.url, "concurrency": 2}
        answer = await http.put(f"{GROUP}/push", json=push)
        assert answer.status_code == 201, answer.text
        killed = await _pushing(gateways)
        await _append(http, range(COUNT // 2))
        await until(lambda: any(attempts.values()), 60)  # it is killed in the middle
        await killed.kill()
    [left] = [gateway for gateway in gateways if gateway is not killed]
    async with httpx.AsyncClient(base_url=left.url, timeout=30) as http:
        await _append(http, range(COUNT // 2, COUNT))

        async def is_settled() -> bool:
            group = (await http.get(GROUP)).json()
            return (group["pending"], group["lag"]) == (0, 0)

        await eventually(is_settled, bool)
    await left.stop()
    await receiver.close()
    assert all(attempts.values())
    repeated = [counts for counts in attempts.values() if len(counts) > 1]
    assert len(repeated) <= 4  # what was on its way when it died
    for counts in attempts.values():
        assert counts == sorted(counts)
    assert Counter(counts[0] for counts in attempts.values()) == {1: COUNT}


async def _pushing(gateways: list[Gateway]) -> Gateway:
    """Return the gateway that has the lease."""
    leading: list[Gateway] = []

    async def is_led() -> bool:
        for gateway in gateways:
            async with httpx.AsyncClient(base_url=gateway.url) as http:
                text = (await http.get("/metrics")).text
            leading.extend([gateway] if 'headgate_pushes{state="active"} 1.0' in text else [])
        return bool(leading)

    await eventually(is_led, bool)
    return leading[0]


async def _append(http: httpx.AsyncClient, numbers: range) -> None:
    entries = [{"fields": {"v": str(number)}} for number in numbers]
    answer = await http.post("/v1/streams/orders/entries/batch", json=entries)
    assert answer.status_code == 201, answer.text


async def test_without_a_key_of_the_operator_no_secret_is_kept_in_servers(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    del settings["push_key_file"]
    gateway = await Gateway.start(tmp_path, settings)
    async with httpx.AsyncClient(base_url=gateway.url, timeout=30) as http:
        await http.put(GROUP, json={"create_stream": True})
        answer = await http.put(f"{GROUP}/push", json={"url": "https://hooks.example/"})
        assert (answer.status_code, answer.json()["code"]) == (501, "not_supported")
        assert "push_key_file" in answer.json()["detail"]
        push = {"url": "https://hooks.example/"}
        answer = await http.put("/v1/groups/billing/push?match=orders.*", json=push)
        assert (answer.status_code, answer.json()["code"]) == (501, "not_supported")
        assert "patterns" in answer.json()["detail"]
    await gateway.stop()
