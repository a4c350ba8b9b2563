"""Requests of bulk operations, as a pipeline makes them."""

from collections.abc import Iterable
from typing import Any

import httpx
import pyarrow as pa

from tests.api.conftest import Live
from tests.arrow_bodies import ARROW, HEADERS

WRITER = "/v1/bulk/writers/load"


async def read_arrow(live: Live, stream: str, query: str = "") -> httpx.Response:
    return await live.http.get(f"/v1/streams/{stream}/entries?{query}", headers={"Accept": ARROW})


def table_in(answer: httpx.Response) -> pa.Table:
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == ARROW
    return pa.ipc.open_stream(answer.content).read_all()


def values_in(answer: httpx.Response) -> list[str]:
    return [dict(row["fields"])[b"v"].decode() for row in table_in(answer).to_pylist()]


async def values(live: Live, stream: str) -> list[str]:
    page = (await live.http.get(f"/v1/streams/{stream}/entries")).json()
    return [entry["fields"]["v"] for entry in page["entries"]]


async def stage(
    live: Live, body: bytes, place: tuple[int, int, str, int], query: str = "stream=out"
) -> httpx.Response:
    """Stage a chunk; its place is batch, partition, attempt and number."""
    batch, partition, attempt, number = place
    url = (
        f"{WRITER}/batches/{batch}/partitions/{partition}/attempts/{attempt}/chunks/{number}"
        f"?{query}"
    )
    return await live.http.put(url, content=body, headers=HEADERS)


async def commit(
    live: Live, batch: int, attempts: Iterable[tuple[int, str, int]], **body: Any
) -> httpx.Response:
    """Commit attempts: partition, token and number of chunks of each."""
    named = [
        {"partition": partition, "attempt": token, "chunks": chunks}
        for partition, token, chunks in attempts
    ]
    return await live.http.post(
        f"{WRITER}/batches/{batch}/commit", json={"attempts": named, **body}
    )
