"""Whoever uses the Python client has types: mypy --strict and pyright find nothing to say."""

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from headgate.app.routes import guide
from tests.api.documents.snippets import snippets
from tests.sdk.workshop import ROOT, node_modules, output_of, tool

PROGRAM = """\
import asyncio
from typing import assert_type

import headgate


async def main(hg: headgate.AsyncClient) -> None:
    orders, billing = hg.stream("orders"), hg.group("orders", "billing")
    assert_type(await orders.append({"sku": "42", "blob": b"x"}), str)
    assert_type(await orders.append_many([{"a": "1"}, [("a", "1"), ("a", "2")]]), list[str])
    async for entry in orders.follow(after="0"):
        assert_type(entry.id, str)
        assert_type(entry.fields["sku"], str | bytes)
    async with billing.consume() as jobs:
        async for job in jobs:
            async with job:
                assert_type(job.deliveries, int)
    assert_type((await billing.info())["lag"], int | None)
    try:
        await orders.info()
    except headgate.Problem as problem:
        assert_type(problem.retry_after_s, float | None)


def plain() -> None:
    with headgate.Client(token=lambda: "token") as hg:
        assert_type(hg.stream("orders").append({"sku": "42"}), str)
        for entry in hg.stream("orders").scan():
            assert_type(entry.id, str)
        hg.group("orders", "billing").work(lambda job: print(job.fields), concurrency=2)


if __name__ == "__main__":
    asyncio.run(main(headgate.AsyncClient()))
"""


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with programs of users: one for types, and those of the guide."""
    folder = tmp_path_factory.mktemp("programs")
    (folder / "typed.py").write_text(PROGRAM)
    for task in guide.TASKS:
        for number, snippet in enumerate(snippets(task, "python")):
            (folder / f"{task}{number}.py").write_text(snippet.code)
    return folder


async def test_mypy_has_nothing_to_say(programs: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "mypy", "--strict", "--config-file=", str(programs)),
        "--disable-error-code=import-untyped",  # pandas has its types elsewhere
        cwd=programs,
        env={**os.environ, "MYPYPATH": str(ROOT / "src")},
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await process.communicate()
    ours = await asyncio.to_thread(lambda: {path.name for path in programs.glob("*.py")})
    lines = output.decode().splitlines()
    assert [line for line in lines if Path(line.partition(":")[0]).name in ours] == []
    assert "source files" in lines[-1]


async def test_pyright_has_nothing_to_say(programs: Path) -> None:
    pyright = await asyncio.to_thread(lambda: node_modules() / ".bin" / "pyright")
    config = {"extraPaths": [str(ROOT / "src")], "pythonVersion": "3.11"}
    config |= {"typeCheckingMode": "standard"}  # strict complains of pyarrow, which has no types
    await asyncio.to_thread((programs / "pyrightconfig.json").write_text, json.dumps(config))
    output = await output_of(tool("node"), pyright, "--pythonpath", sys.executable, folder=programs)
    assert "0 errors" in output
