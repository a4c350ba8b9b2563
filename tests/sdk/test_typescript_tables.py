"""Tables by key with `@headgate/client` in Node: rows, conditions, and changes as they come."""

import json
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from headgate.app.settings import Settings
from tests.api.conftest import Live, running
from tests.sdk.program import running_program
from tests.sdk.restartable import Restartable
from tests.sdk.typescript import README, program_folder, snippets
from tests.sdk.workshop import output_of, tool

STOCK = "/v1/streams/stock"


@pytest.fixture
async def live() -> AsyncIterator[Live]:
    async with running(Settings()) as gateway:
        yield gateway


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Restartable]:
    gateway = Restartable(tmp_path / "data")
    await gateway.start()
    yield gateway
    with suppress(AssertionError):
        await gateway.stop()


@pytest.fixture
def javascript(tmp_path: Path) -> Path:
    return program_folder(tmp_path / "javascript")


async def test_rows_are_put_read_and_deleted(live: Live, javascript: Path) -> None:
    output = await output_of(tool("node"), "rows.mjs", live.url, folder=javascript)
    answers = json.loads(output)
    first, second = answers.pop("first"), answers.pop("second")
    assert answers == {
        "repeated": first,
        "row": {"key": "eu/42", "id": first, "fields": {"sku": "eu/42", "count": "3"}},
        "taken": [True, True, first],
        "missing": [True, True, None],
        "stale": [True, True, second],
        "waited": second,
        "deleted": [True, False],
        "absent": True,
        "keys": ["..", "a", "b", "ü"],
        "filtered": ["..", "ü"],
        "begun": ["b"],
        "columns": [{"kind": "x"}],
    }


async def test_the_tables_of_the_readme_run_as_they_stand(live: Live, javascript: Path) -> None:
    [tables] = [each for each in snippets(README, "ts") if ".table(" in each]
    (javascript / "tables.mjs").write_text(tables.replace("http://localhost:8080", live.url))
    output = await output_of(tool("node"), "tables.mjs", folder=javascript)
    assert output.splitlines() == ["now it is 2", "42 2", "42 2"]


async def put(client: httpx.AsyncClient, key: str, n: str) -> None:
    answer = await client.put(f"{STOCK}/table/{key}", json={"fields": {"n": n}})
    assert answer.is_success, answer.text


@pytest.mark.parametrize("transport", ["socket", "events"])
async def test_a_view_stays_current_over_a_restart_of_the_gateway(
    gateway: Restartable, javascript: Path, transport: str
) -> None:
    async with httpx.AsyncClient(base_url=gateway.url) as client:
        await client.put(STOCK, json={"key_field": "sku"})
        for key in ("a", "b", "c"):
            await put(client, key, "1")
        script = (tool("node"), "changes.mjs", gateway.url, transport)
        async with running_program(*script, folder=javascript) as program:
            await program.until(lambda: "caught_up" in program.all("state"))
            assert changes_of(program.lines) == [("a", "1"), ("b", "1"), ("c", "1")]
            await put(client, "a", "2")
            await client.delete(f"{STOCK}/table/b")
            await client.delete(f"{STOCK}/table/b")
            await program.until(lambda: len(program.all("key")) == 5)
            assert changes_of(program.lines)[3:] == [("a", "2"), ("b", None)]

            await gateway.stop()
            await program.until(lambda: "lost" in program.all("connection"))
            await gateway.start()
            await put(client, "d", "1")
            await program.until(lambda: len(program.all("key")) == 6)
            assert changes_of(program.lines)[5:] == [("d", "1")]
            await program.end()
    assert changes_of(program.lines)[6:] == []


def changes_of(lines: list[dict[str, Any]]) -> list[tuple[str, str | None]]:
    return [(line["key"], line["n"]) for line in lines if "key" in line]


async def test_what_was_trimmed_unseen_is_seen_by_its_rows(live: Live, javascript: Path) -> None:
    output = await output_of(tool("node"), "trimmed.mjs", live.url, folder=javascript)
    assert json.loads(output) == {"a": None, "b": None, "e": "1"}


async def test_a_change_has_the_key_of_its_row(live: Live, javascript: Path) -> None:
    await live.ask(f"PUT {STOCK}", {"key_field": "sku"})
    async with running_program(
        tool("node"), "changes.mjs", live.url, "socket", folder=javascript
    ) as program:
        await program.until(lambda: "caught_up" in program.all("state"))
        entries = [
            {"fields": {"sku": "/w=="}, "base64": ["sku"]},
            *({"fields": {"sku": key}} for key in ("base64:x", "", "k" * 1_025, "ü")),
        ]
        await live.ask(f"POST {STOCK}/entries/batch", entries)
        await program.until(lambda: "ü" in program.all("key"))
        await program.end()
    rows = (await live.ask(f"GET {STOCK}/table"))["rows"]
    assert sorted(program.all("key")) == sorted(row["key"] for row in rows)
    assert len(rows) == 4
