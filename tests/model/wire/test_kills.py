"""A gateway that is killed among random commands of Redis clients has what a redis-server has.

The same histories as in `test_histories` go to both. Then the gateway is killed at any moment of a
pipeline or a transaction, and begun again. It has carried out the first commands of the pipeline,
at least all that it has answered; of a transaction all or nothing.

HEADGATE_TEST_KILLS says how often, HEADGATE_TEST_SEED with which choices. With
HEADGATE_TEST_WORKERS=2 all processes of a gateway are killed.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.model.histories import KEYS
from tests.model.redis_server import Words, words
from tests.model.wire.compared import Parted, check_equal, comparable
from tests.model.wire.replies import Wire, tree_of, written
from tests.model.wire.servers import free_port, server_port, until_open
from tests.model.wire.test_histories import ABOUT_CONNECTIONS, Pair, Talk
from tests.processes.gateway import Gateway, no_gateway_left

__all__ = ["no_gateway_left"]

ROUNDS = int(os.environ.get("HEADGATE_TEST_KILLS", "4"))
PIPELINES = 20
"""Between two kills, at most."""

KILL_S_MAX = 0.004
"""Most pipelines take less."""

SETTINGS = {"log_level": "warning", "rewrite_bytes_min": 20_000, "rewrite_percentage": 60}

LASTING = [
    each for each in ABOUT_CONNECTIONS if each.split()[0] not in ("CONFIG", "WATCH", "MULTI")
]


@pytest.fixture
def seed() -> int:
    return int(os.environ.get("HEADGATE_TEST_SEED") or random.randrange(2**32))


@pytest.fixture
def theirs() -> Iterator[int]:
    with server_port() as port:
        yield port


async def test_what_is_there_after_a_kill_is_what_a_server_has(
    tmp_path: Path, theirs: int, seed: int
) -> None:
    talk, count = Talk(seed, LASTING), 0
    port = free_port()
    gateway = await started(tmp_path, port)
    with closing(Pair(theirs, port)) as pair, closing(Wire(theirs)) as observer:
        pair.begin(2)
        try:
            for _ in range(ROUNDS):
                if not live(pair, talk):
                    pair.run([words("FLUSHALL")], [b"FLUSHALL\r\n"])
                commands = pipeline(talk)
                pair.ours.send(*talk.pieces(commands))
                await asyncio.sleep(talk.pick.uniform(0, KILL_S_MAX))
                gateway.kill_now()
                answered = replies_left(pair.ours, len(commands))
                await gateway.kill()
                gateway = await started(tmp_path, port)
                pair.ours.close()
                pair.ours = Wire(port)
                count += brought_together(pair, observer, commands, answered)
        except AssertionError as error:
            error.add_note(f"HEADGATE_TEST_SEED={seed}")
            raise
    await gateway.stop()
    assert count > 0


async def started(data_dir: Path, port: int) -> Gateway:
    gateway = await Gateway.start(data_dir, {**SETTINGS, "redis_port": port})
    until_open(port)
    return gateway


def live(pair: Pair, talk: Talk) -> bool:
    """Compare some pipelines; tells whether the states are the same afterwards."""
    with suppress(Parted):
        for _ in range(talk.pick.randint(1, PIPELINES)):
            commands = talk.pipeline()
            pair.run(commands, talk.pieces(commands))
        if pair.queued is not None:
            pair.run([words("DISCARD")], [b"DISCARD\r\n"])
        return True
    pair.begin(2)
    return False


def pipeline(talk: Talk) -> list[Words]:
    """Return commands without one that ends earlier transactions or watches."""
    while True:
        commands = talk.pipeline()
        if not {command[0].upper() for command in commands} & {b"RESET", b"WATCH"}:
            return commands


def replies_left(wire: Wire, count: int) -> list[bytes]:
    """Return the replies that the gateway has sent before it ended."""
    replies: list[bytes] = []
    with suppress(ConnectionError):
        while len(replies) < count:
            replies.append(wire.reply())
    return replies


def state(wire: Wire) -> list[Any]:
    """Return all that can be seen of the streams, but for times."""
    full = [words("XINFO", "STREAM", key, "FULL", "COUNT", 0) for key in KEYS]
    return [comparable(each, tree_of(wire.run(written(each))[0])) for each in full]


def brought_together(
    pair: Pair, observer: Wire, commands: list[Words], answered: list[bytes]
) -> int:
    """Check the gateway's commands, and run the remaining ones; returns the number it had run."""
    ours, states = state(pair.ours), [state(observer)]
    for at, command in enumerate(commands):
        [reply] = pair.theirs.run(written(command))
        run = pair._run_by(command, reply)
        with suppress(Parted):
            for own in answered[at : at + 1]:
                check_equal(command, reply, own, run)
        states.append(state(observer))
    done = [at for at, each in enumerate(states) if each == ours and at >= len(answered)]
    assert done, f"{commands}\nanswered {answered}\nours {ours}\ntheirs {states}"
    is_transaction = commands[-1][0].upper() in (b"EXEC", b"DISCARD")
    if done[-1] < len(commands):
        for command in commands if is_transaction else commands[done[-1] :]:
            pair.ours.run(written(command))
    assert state(pair.ours) == states[-1]
    pair.begin(2)  # what the connections were told is no more
    return done[-1]
