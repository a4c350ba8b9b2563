"""WATCH notices the changes that a real redis-server notices, and no others."""

from __future__ import annotations

from contextlib import suppress

from headgate.app.backends.embedded import EmbeddedBackend
from headgate.app.redis_syntax.runs import CommandRunner
from headgate.engine.engine import Engine
from headgate.engine.errors import StreamError, StreamsChanged
from headgate.engine.journal.storage import MemoryStorage
from tests.model.redis_server import Redis, words
from tests.model.server_commands.watched import HISTORIES


def theirs(redis: Redis, made: tuple[str, ...], done: tuple[str, ...]) -> bool:
    """Tell whether redis-server takes `s` for changed."""
    watcher = Redis(redis.port)
    try:
        redis.run(words("FLUSHALL"))
        for command in made:
            redis.run(words(*command.split()))
        watcher.run(words("WATCH", "s"))
        for command in done:
            redis.run(words(*command.split()))
        watcher.run(words("MULTI"))
        watcher.run(words("PING"))
        return watcher.run(words("EXEC")) is None
    finally:
        watcher.close()


async def ours(made: tuple[str, ...], done: tuple[str, ...]) -> bool:
    """Tell whether our commands take `s` for changed."""
    runner = CommandRunner(EmbeddedBackend(Engine(MemoryStorage(0))))

    async def run(command: str) -> None:
        with suppress(StreamError):  # as redis-server has one
            await runner.run(words(*command.split()))

    for command in made:
        await run(command)
    condition = await runner.watch([b"s"])
    for command in done:
        await run(command)
    try:
        replies = await runner.run_all([words("PING")], condition)
    except StreamsChanged:
        return True
    assert replies == ["PONG"]
    return False


async def test_watch_notices_what_redis_notices(redis: Redis) -> None:
    noticed = {history: theirs(redis, *history) for history in HISTORIES}
    assert {history: await ours(*history) for history in HISTORIES} == noticed
    assert {True, False} == set(noticed.values())
