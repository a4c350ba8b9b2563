"""Pages that a browser opens, and the keys they are given."""

from __future__ import annotations

import asyncio
import functools
import http.server
import json
import os
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from playwright.async_api import Page

from tests.conditions import WITHIN_S
from tests.processes.gateway import headgate


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve the files of a folder; yields where."""
    handler = functools.partial(_Quiet, directory=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@asynccontextmanager
async def program(*command: str | Path, **variables: str) -> AsyncIterator[str]:
    """Run a program that serves a page, once it says where; yields that."""
    process = await asyncio.create_subprocess_exec(
        *command, env={**os.environ, **variables}, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(WITHIN_S):
            line = await process.stdout.readline()
        yield line.decode().split()[-1]
    finally:
        process.terminate()
        await process.communicate()


async def look(page: Page, visibility: str) -> None:
    """Let a page believe that it is `visible` or `hidden`: without a head, all of them are seen."""
    await page.evaluate(
        """(visibility) => {
          const get = () => visibility;
          Object.defineProperty(document, "visibilityState", { configurable: true, get });
          document.dispatchEvent(new Event("visibilitychange"));
        }""",
        visibility,
    )


def new_key(data_dir: Path, *grants: Mapping[str, object]) -> str:
    """Return a new key for the gateway of a directory."""
    words = [word for grant in grants for word in ("--grant", json.dumps(grant))]
    done = headgate("keys", "add", "test", *words, "--data-dir", data_dir)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
