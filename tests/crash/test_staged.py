"""Staged chunks outlive a kill, and a commit is there once, at any time of the kill."""

from pathlib import Path

import httpx

from tests.arrow_bodies import HEADERS, body_of
from tests.processes.gateway import Gateway

BATCH = "/v1/bulk/writers/w/batches/0"
COMMIT = {"attempts": [{"partition": 0, "attempt": "t", "chunks": 2}]}


async def entries(http: httpx.AsyncClient) -> list[str]:
    listed = (await http.get("/v1/streams/out/entries")).json()["entries"]
    return [entry["fields"]["v"] for entry in listed]


async def test_a_batch_that_is_killed_between_all_its_steps_is_written_once(tmp_path: Path) -> None:
    for number, value in enumerate("ab"):
        gateway = await Gateway.start(tmp_path)
        async with httpx.AsyncClient(base_url=gateway.url, timeout=30) as http:
            url = f"{BATCH}/partitions/0/attempts/t/chunks/{number}?stream=out"
            assert (await http.put(url, content=body_of(value), headers=HEADERS)).is_success
        await gateway.kill()

    repeated = []
    for _ in range(3):
        gateway = await Gateway.start(tmp_path)
        async with httpx.AsyncClient(base_url=gateway.url, timeout=30) as http:
            answer = await http.post(f"{BATCH}/commit", json=COMMIT)
            assert answer.is_success, answer.text
            repeated.append(answer.json()["repeated"])
            assert await entries(http) == ["a", "b"]
        await gateway.kill()
    assert repeated == [False, True, True]
