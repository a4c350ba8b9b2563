"""The same random histories through a gateway over servers, and through a redis-server by hand.

Nodes have the 100 entries that they have by default: an approximate trim of the gateway counts in
hundreds, whatever the server is set to.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from pydantic import SecretStr

from deploy.local_cluster.server import Server
from headgate.app.gateway.backends import open_backend
from headgate.app.redis_syntax.runs import CommandRunner
from headgate.app.settings import Settings
from tests.model.histories import STEPS, run_history
from tests.model.redis_server import redis_server

HISTORIES = int(os.environ.get("HEADGATE_TEST_HISTORIES", "15"))


@pytest.mark.parametrize("fixture", ["redis_7", "valkey_9"])
def test_a_gateway_answers_as_the_server_behind_it(
    fixture: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    server: Server = request.getfixturevalue(fixture)
    compared = []
    with redis_server(tmp_path) as redis, asyncio.Runner() as runner:
        loop = runner.get_loop()
        for seed in range(HISTORIES):
            settings = Settings(backend=SecretStr(server.url), redis_prefix=f"history{seed}:")
            backend = open_backend(settings)
            running = loop.create_task(backend.run())
            try:
                compared.append(run_history(loop, redis, CommandRunner(backend), seed))
            finally:
                loop.run_until_complete(backend.close())
                loop.run_until_complete(running)
    assert sum(compared) > HISTORIES * STEPS // 2
