"""Pages that a browser opens, and the keys they are given."""

from __future__ import annotations

import functools
import http.server
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from playwright.async_api import Page

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
