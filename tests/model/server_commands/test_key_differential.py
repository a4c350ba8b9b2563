"""Expiry, RANDOMKEY and TOUCH reply as a real redis-server does."""

from __future__ import annotations

from headgate.app.backends.embedded import EmbeddedBackend
from headgate.app.redis_syntax.runs import CommandRunner
from headgate.engine.engine import Engine
from headgate.engine.journal.storage import MemoryStorage
from tests.model.own_replies import own_reply
from tests.model.redis_server import Redis, lines, words

HISTORY = lines(
    "RANDOMKEY / EXPIRETIME s / PEXPIRETIME s / TOUCH s t / XADD s 1-1 a b / XADD t 1-1 a b / "
    "TOUCH s t u s / EXPIRETIME s / EXPIREAT s 40000000000 / EXPIREAT s 40000000000 / "
    "EXPIRETIME s / PEXPIRETIME s / PEXPIREAT s 40000000000499 / EXPIRETIME s / "
    "PEXPIREAT s 40000000000500 NX / PEXPIREAT s 40000000000500 XX / EXPIRETIME s / "
    "EXPIREAT s 39999999999 GT / EXPIREAT s 39999999999 LT / PEXPIRETIME s / "
    "EXPIREAT s 9223372036854775 / EXPIREAT s 9223372036854776 / "
    "EXPIREAT missing 9223372036854776 / EXPIREAT s x / EXPIREAT missing 40000000000 / "
    "PEXPIREAT s 9223372036854775807 / PEXPIRETIME s / EXPIREAT s 40000000000 FOO / "
    "EXPIREAT s 40000000000 NX GT / EXPIRE s 9223372036854775807 / "
    "PEXPIRE s 9223372036854775807 / PERSIST s / PEXPIRETIME s / EXPIREAT s 1 / EXISTS s / "
    "RANDOMKEY / PEXPIREAT t -1 / RANDOMKEY / DBSIZE"
)


async def test_keys_reply_as_redis_does(redis: Redis) -> None:
    runner = CommandRunner(EmbeddedBackend(Engine(MemoryStorage(0))))
    for line in HISTORY:
        command = words(*line.split())
        assert (line, await own_reply(runner, command)) == (line, redis.run(command))
