"""The same random histories through our commands, and through a redis-server by hand.

Our commands are over an engine whose sealed chunks leave memory, or over servers. There nodes have
the 100 entries that they have by default: an approximate trim of the gateway counts in hundreds,
whatever the server is set to.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from functools import partial

import pytest
from pydantic import SecretStr

from deploy.local_cluster.server import Server
from headgate.app.backends.embedded import EmbeddedBackend
from headgate.app.gateway.backends import open_backend
from headgate.app.redis_syntax.runs import CommandRunner
from headgate.app.settings import Settings
from tests.model.freezer import check_state, freeze_some, frozen_engine
from tests.model.histories import STEPS, run_history, run_ours
from tests.model.redis_server import Redis, words
from tests.model.wire.servers import server_port

HISTORIES = int(os.environ.get("HEADGATE_TEST_HISTORIES", "15"))
SHORT_NODES = words("CONFIG", "SET", "stream-node-max-entries", 3)


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    with asyncio.Runner() as runner:
        yield runner.get_loop()


def test_an_engine_answers_as_a_server(redis: Redis, loop: asyncio.AbstractEventLoop) -> None:
    compared = []
    redis.run(SHORT_NODES)
    for seed in range(2 * HISTORIES):
        engine = frozen_engine()
        runner = CommandRunner(EmbeddedBackend(engine))
        assert run_ours(loop, runner, SHORT_NODES) == "OK"
        between = partial(freeze_some, engine)
        compared.append(run_history(loop, redis, runner, seed, between))
        check_state(engine)
    assert sum(compared) > HISTORIES * STEPS


@pytest.mark.parametrize("fixture", ["redis_7", "valkey_9"])
def test_a_gateway_answers_as_the_server_behind_it(
    fixture: str, request: pytest.FixtureRequest, loop: asyncio.AbstractEventLoop
) -> None:
    server: Server = request.getfixturevalue(fixture)
    compared = []
    with server_port() as port:  # not the one of the gateway
        redis = Redis(port)
        for seed in range(HISTORIES):
            settings = Settings(backend=SecretStr(server.url), redis_prefix=f"history{seed}:")
            backend = open_backend(settings)
            running = loop.create_task(backend.run())
            try:
                compared.append(run_history(loop, redis, CommandRunner(backend), seed))
            finally:
                loop.run_until_complete(backend.close())
                loop.run_until_complete(running)
        redis.close()
    assert sum(compared) > HISTORIES * STEPS // 2
