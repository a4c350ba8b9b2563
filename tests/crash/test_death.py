"""When a task without which nothing works has died, the process ends, and it is told why."""

import asyncio
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from starlette.types import Receive, Scope, Send

from headgate.app.backends.embedded import EmbeddedBackend
from headgate.app.gateway.gateway import Gateway
from headgate.app.main import create_app
from headgate.app.settings import MEMORY, Settings
from headgate.engine.commands import StreamDeleted
from headgate.engine.decisions import Decision
from tests.conditions import WITHIN_S
from tests.processes.gateway import END_S_MAX, ROOT, headgate

PROGRAM = """
import asyncio, sys
from pathlib import Path
from headgate.app.main import create_app, open_backend
from headgate.app.server import Server
from headgate.app.settings import Settings
from headgate.app.runtime.logs import set_up_logging
from headgate.engine.engine import Engine
from headgate.engine.entry import Draft
from headgate.engine.requests.entries import Add

async def run_housekeeping(self):
    await self.perform(Add(b"s", [Draft(None, (b"f", b"v"))]))
    raise RuntimeError("a mistake in housekeeping")

Engine.run_housekeeping = run_housekeeping
settings = Settings(port=0, data_dir=Path(sys.argv[1]))
set_up_logging(settings.log_level)
Server(create_app(settings, open_backend(settings)), settings).run()
"""


def test_a_task_that_dies_ends_the_process_with_a_code(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=END_S_MAX,
        check=False,
    )
    assert ended.returncode == 1
    [line] = [line for line in ended.stderr.splitlines() if "CRITICAL" in line]
    assert "the gateway has failed and is shutting down" in line
    assert "a mistake in housekeeping" in line
    checked = headgate("check", "--data-dir", tmp_path)
    assert "1 stream, 1 entry" in checked.stdout


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/v1/streams"])
async def test_a_gateway_whose_engine_is_dead_says_so(path: str) -> None:
    app = create_app(Settings(data_dir=MEMORY))
    gateway: Gateway = app.state.gateway
    backend = gateway.backend
    assert isinstance(backend, EmbeddedBackend)

    async def with_state(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, "state": state}, receive, send)

    transport = httpx.ASGITransport(with_state)
    async with (
        app.router.lifespan_context(app) as state,
        httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http,
    ):
        assert (await http.get(path)).status_code == 200
        with pytest.raises(KeyError):
            await backend.engine._executor.run(lambda: Decision(None, [StreamDeleted(b"missing")]))
        async with asyncio.timeout(WITHIN_S):
            await gateway.died.wait()
        answer = await http.get(path)
        assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
