"""A gateway whose streams take all the memory they may: what is refused, and what is not."""

from random import Random

import pytest

from headgate.app.settings import Settings
from tests.api.conftest import problem_in, running
from tests.api.operations.test_operations import sample

pytestmark = pytest.mark.embedded("servers bound and count their memory themselves")

SMALL = Settings(memory_bytes_max=2**20)
OOM = "OOM command not allowed when used memory > 'maxmemory'."


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
        assert (await live.http.get("/v1/streams/s/entries?limit=1")).status_code == 200
        read = await live.read_group("s", "g", "me", limit=1)
        ids = [entry["id"] for entry in read["entries"]]
        acked = await live.http.post("/v1/streams/s/groups/g/ack?consumer=me", json={"ids": ids})
        assert acked.status_code == 200
        command = await live.http.post("/v1/commands", json=["XADD", "s", "*", "k", "v"])
        assert command.json() == {"error": OOM}

        trimmed = await live.http.post("/v1/streams/s/trim", json={"max_length": 10})
        assert trimmed.json()["removed"] > 0
        again = await live.http.post("/v1/streams/s/entries", json={"fields": {"k": "v"}})
        assert again.status_code == 201


async def test_what_the_streams_take_is_told() -> None:
    async with running(SMALL) as live:
        await live.append("s", "1")
        metrics = (await live.http.get("/metrics")).text
        limits = (await live.http.get("/v1/limits")).json()

    assert sample(metrics, 'headgate_memory_bytes{kind="streams"}') > 0
    assert sample(metrics, 'headgate_memory_bytes{kind="entries"}') > 0
    assert sample(metrics, "headgate_memory_bytes_max") == 2**20
    assert limits["memory_bytes_max"] == 2**20
