"""A gateway whose streams take all the memory they may: refused and accepted requests."""

import asyncio
from random import Random

import pytest
from pydantic import SecretStr

from deploy.local_cluster.server import Server
from headgate.app.settings import Settings
from tests.api.conftest import Live, problem_in, running
from tests.api.operations.test_operations import sample
from tests.servers.chosen import is_behind_socket

EMBEDDED = pytest.mark.embedded("servers bound and count their memory themselves")
SMALL = Settings(memory_bytes_max=2**20)
OOM = "OOM command not allowed when used memory > 'maxmemory'."
ABORTED = f"EXECABORT Transaction discarded because of previous errors. ({OOM})"


@EMBEDDED
async def test_an_append_is_answered_507_until_something_goes() -> None:
    async with running(SMALL) as live:
        await live.create_group("s", "g")
        random = Random(1)
        for _ in range(1000):
            entries = [{"fields": {"v": random.randbytes(500).hex()}} for _ in range(100)]
            answer = await live.http.post("/v1/streams/s/entries/batch", json=entries)
            if answer.status_code != 201:
                break
        answer = await live.http.post("/v1/streams/s/entries", json={"fields": {"v": "1"}})
        problem = problem_in(answer)

        assert (answer.status_code, problem["code"]) == (507, "memory_full")
        assert problem["retryable"]
        ready = (await live.http.get("/readyz")).json()
        assert "Memory is full" in ready["warnings"][0]
        assert "by entries" in ready["warnings"][0]
        assert (await live.http.get("/v1/streams/s/entries?limit=1")).status_code == 200
        read = await live.read_group("s", "g", "me", limit=1)
        ids = [entry["id"] for entry in read["entries"]]
        await live.ask("POST /v1/streams/s/groups/g/ack?consumer=me", {"ids": ids})
        command = await live.http.post("/v1/commands", json=["XADD", "s", "*", "k", "v"])
        assert command.json() == {"error": OOM}
        commands = [["XTRIM", "s", "MAXLEN", "10"], ["XADD", "s", "*", "k", "v"]]
        transaction = await live.http.post("/v1/commands/multi-exec", json=commands)
        assert (transaction.status_code, transaction.json()) == (503, {"error": ABORTED})

        trimmed = await live.http.post("/v1/streams/s/trim", json={"max_length": 10})
        assert trimmed.json()["removed"] > 0
        await live.ask("POST /v1/streams/s/entries", {"fields": {"k": "v"}})
        assert "warnings" not in (await live.http.get("/readyz")).json()


@EMBEDDED
@pytest.mark.skipif(is_behind_socket(), reason="its process tells that, and not the worker")
async def test_what_the_streams_take_is_told() -> None:
    async with running(SMALL) as live:
        await live.append("s", "1")
        metrics = (await live.http.get("/metrics")).text
        limits = (await live.http.get("/v1/limits")).json()

    assert sample(metrics, 'headgate_memory_bytes{kind="streams"}') > 0
    assert sample(metrics, 'headgate_memory_bytes{kind="entries"}') > 0
    assert sample(metrics, "headgate_memory_bytes_max") == 2**20
    assert limits["memory_bytes_max"] == 2**20


async def test_a_full_server_refuses_what_adds_and_does_what_removes(valkey_9: Server) -> None:
    ids: list[str] = []
    settings = Settings(backend=SecretStr(valkey_9.url), redis_prefix="full:")
    async with running(settings) as live:
        ids += await live.append("s", "1", "2", "3")
        await live.create_group("s", "g")
        await asyncio.to_thread(valkey_9.run, "CONFIG", "SET", "maxmemory", 1)
        try:
            await check_full(live)
            read = await live.read_group("s", "g", "me")
            assert [entry["id"] for entry in read["entries"]] == ids
            assert await live.outcomes("ack", "s", "g", ids[:1], "me") == ["acked"]
            assert await live.outcomes("nack", "s", "g", ids[1:2], "me") == ["released"]
            assert (await live.claim("s", "g", "you", ids=ids[1:]))["entries"]
            assert (await live.http.delete(f"/v1/streams/s/entries/{ids[0]}")).is_success
            trimmed = await live.http.post("/v1/streams/s/trim", json={"max_length": 1})
            assert trimmed.json() == {"removed": 1}
        finally:
            await asyncio.to_thread(valkey_9.run, "CONFIG", "SET", "maxmemory", 0)
        await live.append("s", "4")


async def check_full(live: Live) -> None:
    entry = {"fields": {"v": "1"}}
    for method, path, body in (
        ("POST", "/v1/streams/s/entries", entry),
        ("POST", "/v1/streams/s/entries/batch", [entry]),
        ("PUT", "/v1/streams/other", None),
        ("PUT", "/v1/streams/s/groups/other", {}),
    ):
        refused = await live.http.request(method, path, json=body)
        assert (refused.status_code, problem_in(refused)["code"]) == (507, "memory_full"), path
    append = ["XADD", "s", "*", "k", "v"]
    command = await live.http.post("/v1/commands", json=append)
    transaction = await live.http.post("/v1/commands/multi-exec", json=[["XLEN", "s"], append])
    assert (command.status_code, command.json()) == (503, {"error": OOM})
    assert (transaction.status_code, transaction.json()) == (503, {"error": ABORTED})
