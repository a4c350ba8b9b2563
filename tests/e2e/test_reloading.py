"""`headgate serve --dev` serves what its code says now."""

import asyncio
import os
import shutil
import sys
from pathlib import Path

import httpx

from deploy.local_cluster.server import free_ports
from tests.processes.gateway import ROOT

START_S_MAX = 60


async def test_a_change_of_the_code_is_served_without_another_command(tmp_path: Path) -> None:
    package = tmp_path / "headgate"
    ignored = shutil.ignore_patterns("__pycache__", "console", "clients")
    await asyncio.to_thread(
        shutil.copytree, ROOT / "src" / "headgate", package, symlinks=False, ignore=ignored
    )
    [port] = free_ports(1)
    words = ["serve", "--dev", "--port", str(port), "--data-dir", str(tmp_path / "data")]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "headgate.app.cli", *words),
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    try:
        async with asyncio.timeout(START_S_MAX), httpx.AsyncClient() as http:
            await until_read(process.stderr, b"Headgate is at")
            page = package / "app" / "guide" / "work.md"
            page.write_text("# Another text\n")
            await until_read(process.stderr, b"Changed: work.md.")
            await until_read(process.stderr, b"Headgate is at")
            shown = await http.get(f"http://127.0.0.1:{port}/guide/work")
        assert shown.text == "# Another text\n"
    finally:
        process.terminate()
        await process.stderr.read()
        await process.wait()


async def until_read(log: asyncio.StreamReader, words: bytes) -> None:
    """Return once a line with these words has come."""
    while words not in (line := await log.readline()):
        assert line, "the command has ended"
