"""Expiry, RANDOMKEY and TOUCH reply as a real redis-server does."""

from __future__ import annotations

from headgate.app.backends.embedded import EmbeddedBackend
from headgate.app.redis_syntax.runs import CommandRunner
from headgate.engine.engine import Engine
from headgate.engine.journal.storage import MemoryStorage
from tests.model.own_replies import own_reply
from tests.model.redis_server import Redis, words

FAR_S = 40_000_000_000

HISTORY = f"""\
RANDOMKEY
EXPIRETIME s
PEXPIRETIME s
TOUCH s t
XADD s 1-1 a b
XADD t 1-1 a b
TOUCH s t u s
EXPIRETIME s
EXPIREAT s {FAR_S}
EXPIREAT s {FAR_S}
EXPIRETIME s
PEXPIRETIME s
PEXPIREAT s {FAR_S * 1000 + 499}
EXPIRETIME s
PEXPIREAT s {FAR_S * 1000 + 500} NX
PEXPIREAT s {FAR_S * 1000 + 500} XX
EXPIRETIME s
EXPIREAT s {FAR_S - 1} GT
EXPIREAT s {FAR_S - 1} LT
PEXPIRETIME s
EXPIREAT s 9223372036854775
EXPIREAT s 9223372036854776
EXPIREAT missing 9223372036854776
EXPIREAT s x
EXPIREAT missing {FAR_S}
PEXPIREAT s 9223372036854775807
PEXPIRETIME s
EXPIREAT s {FAR_S} FOO
EXPIREAT s {FAR_S} NX GT
EXPIRE s 9223372036854775807
PEXPIRE s 9223372036854775807
PERSIST s
PEXPIRETIME s
EXPIREAT s 1
EXISTS s
RANDOMKEY
PEXPIREAT t -1
RANDOMKEY
DBSIZE"""


async def test_keys_reply_as_redis_does(redis: Redis) -> None:
    runner = CommandRunner(EmbeddedBackend(Engine(MemoryStorage(0))))
    for line in HISTORY.splitlines():
        command = words(*line.split())
        assert (line, await own_reply(runner, command)) == (line, redis.run(command))
