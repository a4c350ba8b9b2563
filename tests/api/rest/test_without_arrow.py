"""A gateway without pyarrow: it serves everything but Arrow, and says how to get that."""

import asyncio
import sys
from pathlib import Path

import httpx

from tests.api.conftest import refusal_of
from tests.arrow_bodies import ARROW, HEADERS
from tests.conditions import WITHIN_S

HIDING = """
import sys
sys.modules["pyarrow"] = None
from headgate.app.cli import main
main(["serve", "--port", "0", "--data-dir", ":memory:"])
"""
ROOT = Path(__file__).parents[3]


async def test_without_pyarrow_only_arrow_is_missing() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HIDING, cwd=ROOT, stderr=asyncio.subprocess.PIPE
    )
    try:
        assert process.stderr is not None
        async with asyncio.timeout(WITHIN_S):
            line = ""
            while "Headgate is at " not in line:
                read = await process.stderr.readline()
                assert read, "it has ended"
                line = read.decode()
        url = line.partition("Headgate is at ")[2].partition(",")[0]
        async with httpx.AsyncClient(base_url=url, timeout=30) as http:
            entries = "/v1/streams/orders/entries"
            assert (await http.post(entries, json={"fields": {"v": "1"}})).status_code == 201
            assert (await http.get(entries)).json()["entries"][0]["fields"] == {"v": "1"}
            assert (await http.get("/v1/streams/orders/splits")).json()["splits"]

            chunk = "/v1/bulk/writers/w/batches/0/partitions/0/attempts/t/chunks/0?stream=orders"
            for answer in (
                await http.get(entries, headers={"Accept": ARROW}),
                await http.post(f"{entries}/batch", content=b"x", headers=HEADERS),
                await http.put(chunk, content=b"x", headers=HEADERS),
            ):
                assert refusal_of(answer)[:2] == (501, "extra_missing")
                assert "pip install -e '.[arrow]'" in answer.json()["detail"]
    finally:
        process.terminate()
        await process.wait()
