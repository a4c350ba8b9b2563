"""Archives: entries that were trimmed are read by the same range and cursor."""

import io
import json
from collections.abc import AsyncIterator
from typing import Any

import pyarrow as pa
import pytest

from headgate.app.backends.embedded import EmbeddedBackend
from headgate.app.settings import Settings
from headgate.client.client import AsyncClient
from headgate.engine.engine import Engine
from headgate.engine.journal.storage import MemoryStorage
from tests.api.conftest import Live, running

STREAM = "/v1/streams/orders"
ENTRIES = f"{STREAM}/entries"
LINES = {"accept": "application/x-ndjson"}
ARROW = {"accept": "application/vnd.apache.arrow.stream"}


@pytest.fixture
async def archiving() -> AsyncIterator[Live]:
    """Run a gateway with a stream of seven entries, five of them archived."""
    engine = Engine(MemoryStorage(records_max=0), has_bucket=True)
    async with running(Settings(), EmbeddedBackend(engine)) as live:
        created = await live.http.put(STREAM, json={"max_length": 2, "archive": True})
        assert created.json()["config"]["archive"] is True
        for number in range(1, 8):
            entry = {"id": f"{number}-0", "fields": {"n": str(number % 2)}}
            await live.http.post(ENTRIES, json=entry)
        yield live


def numbers(entries: list[dict[str, str]]) -> list[int]:
    return [int(entry["id"].partition("-")[0]) for entry in entries]


async def read(live: Live, query: str = "") -> Any:
    page = await live.ask(f"GET {ENTRIES}?{query}")
    return {**page, "entries": numbers(page["entries"])}


async def test_a_range_begins_in_the_archive(archiving: Live) -> None:
    page = await read(archiving)
    assert (page["entries"], page["archived"]) == ([1, 2, 3, 4, 5, 6, 7], True)
    page = await read(archiving, "start=3-0&limit=2")
    assert (page["entries"], page["next_after"], page["archived"]) == ([3, 4], "4-0", True)
    page = await read(archiving, "start=6-0")
    assert (page["entries"], "archived" in page) == ([6, 7], False)
    page = await read(archiving, "order=desc&limit=4")
    assert (page["entries"], page["archived"]) == ([7, 6, 5, 4], True)
    page = await read(archiving, "archived=false")
    assert (page["entries"], "archived" in page) == ([6, 7], False)
    page = await read(archiving, f"filter={json.dumps({'exact': {'n': '0'}})}")
    assert (page["entries"], page["archived"]) == ([2, 4, 6], True)


async def test_a_cursor_has_no_gap_where_the_archive_has_it(archiving: Live) -> None:
    page = await read(archiving, "after=2-0&limit=4")
    assert (page["entries"], page["gap"], page["archived"]) == ([3, 4, 5, 6], None, True)
    page = await read(archiving, "after=2-0&archived=false")
    assert (page["entries"], page["gap"]) == ([6, 7], {"from": "2-0", "to": "5-0"})


async def test_lines_and_arrow_have_what_is_archived(archiving: Live) -> None:
    for query, wanted in (("start=3-0", [3, 4, 5, 6, 7]), ("after=4-0", [5, 6, 7])):
        answer = await archiving.http.get(f"{ENTRIES}?{query}", headers=LINES)
        assert numbers(list(map(json.loads, answer.text.splitlines()))) == wanted
        assert answer.headers["headgate-archived"] == "true"
        answer = await archiving.http.get(f"{ENTRIES}?{query}", headers=ARROW)
        assert pa.ipc.open_stream(io.BytesIO(answer.content)).read_all()["ms"].to_pylist() == wanted
        assert answer.headers["headgate-archived"] == "true"
        assert "headgate-gap-to" not in answer.headers
    answer = await archiving.http.get(f"{ENTRIES}?start=6-0", headers=ARROW)
    assert "headgate-archived" not in answer.headers


async def test_a_stream_says_what_is_archived_and_it_can_be_trimmed(archiving: Live) -> None:
    info = (await archiving.http.get(STREAM)).json()
    assert (info["archived_count"], info["archived_first_id"], info["length"]) == (5, "1-0", 2)
    assert (await archiving.http.delete(f"{STREAM}/archive?before=3-0")).json() == {"removed": 2}
    refused = await archiving.http.delete(f"{STREAM}/archive?before=x")
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid_id")
    assert (await archiving.http.delete("/v1/streams/none/archive")).status_code == 404

    async with AsyncClient(archiving.url) as client:
        stream = client.stream("orders")
        page = await stream.read(start="-")
        assert ([entry.id for entry in page.entries][:2], page.archived) == (["3-0", "4-0"], True)
        page = await stream.read(start="-", archived=False)
        assert ([entry.id for entry in page.entries], page.archived) == (["6-0", "7-0"], False)
        assert await stream.trim_archive() == 3
    info = (await archiving.http.get(STREAM)).json()
    assert (info["archived_count"], info["archived_first_id"]) == (0, None)


async def test_metrics_count_what_is_archived(archiving: Live) -> None:
    async def text() -> str:
        return (await archiving.http.get("/metrics")).text

    while "headgate_stream_archived_entries{" not in (shown := await text()):
        pass
    [line] = [each for each in shown.splitlines() if each.startswith("headgate_stream_archived_")]
    assert line.endswith(" 5.0")


async def test_a_gateway_without_a_bucket_says_why_it_refuses(live: Live) -> None:
    refused = await live.http.put(STREAM, json={"archive": True})
    assert (refused.status_code, refused.json()["code"]) == (501, "not_supported")
    assert "bucket" in refused.json()["detail"]
    assert "archives" not in (await live.http.get("/v1/limits")).json()["abilities"]
    assert (await live.http.put(STREAM, json={"archive": False})).status_code == 201
