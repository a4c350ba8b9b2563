"""Durable Streams beside its reference server for Node, and one in Python. All sync each append."""

import importlib.util
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx

from deploy.local_cluster.server import free_ports
from tests.bench.figures import Figure
from tests.bench.gateway import BODY
from tests.bench.load import Load, get, post
from tests.bench.servers import running, serving
from tests.sdk.workshop import node_modules, tool

ROUNDS = 3
SECONDS = 2.0
MESSAGES = 1_000
"""Messages of the stream that is read as a whole."""

_NPM = Path(__file__).parents[1] / "durable_streams" / "npm"
_PATH = "/v1/stream/{}"
_JSON = {"content-type": "application/json"}


async def measure() -> list[Figure]:
    """Return appends and whole reads that are answered in a second, in turns with each peer."""
    figures = []
    with ExitStack() as stack:
        ports = {"headgate": stack.enter_context(serving("headgate", "always"))}
        ports["@durable-streams/server"] = stack.enter_context(_reference())
        if importlib.util.find_spec("rakaia"):  # `pip install rakaia-streams`
            ports["rakaia"] = stack.enter_context(_rakaia())
        for port in ports.values():
            _fill(port)
        works = [
            ("appends, 1 connection", post(_PATH.format("new"), BODY), 1),
            ("appends, 32 connections", post(_PATH.format("new"), BODY), 32),
            (f"reads of {MESSAGES:,} messages", get(_PATH.format("old?offset=-1")), 8),
        ]
        for work, request, connections in works:
            rates: dict[str, list[float]] = {peer: [] for peer in ports}
            for _ in range(ROUNDS):
                for peer, port in ports.items():
                    load = Load("127.0.0.1", port, request, connections=connections)
                    rates[peer].append(await load.per_second(SECONDS))
            here = rates.pop("headgate")
            figures += [
                Figure.of_rounds(work, here, "requests/s", peer, there)
                for peer, there in rates.items()
            ]
    return figures


def _fill(port: int) -> None:
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=_JSON) as http:
        for name in ("new", "old"):
            assert http.put(_PATH.format(name)).is_success
        messages = b"[%b]" % b",".join([BODY] * MESSAGES)
        assert http.post(_PATH.format("old"), content=messages).is_success


@contextmanager
def _reference() -> Iterator[int]:
    node_modules(_NPM)
    [port] = free_ports(1)
    with tempfile.TemporaryDirectory() as folder:
        variables = {"PORT": str(port), "DATA_DIR": folder}
        with running([tool("node"), str(_NPM / "server.mjs")], port, variables):
            yield port


@contextmanager
def _rakaia() -> Iterator[int]:
    [port] = free_ports(1)
    app = ["--factory", "tests.bench.durable_streams:rakaia_app", "--port", str(port)]
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "uvicorn", *app, "--log-level", "warning"]
        with running(command, port, {"DATA_DIR": folder}):
            yield port


def rakaia_app() -> Any:
    """Return the application of rakaia over files."""
    rakaia, files = map(importlib.import_module, ("rakaia", "rakaia.jsonl_store"))
    return rakaia.create_app(store=files.JsonlStreamStore(os.environ["DATA_DIR"]))
