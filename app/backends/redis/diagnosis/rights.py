"""Rights: which commands the user of a server lacks.

The server itself says so (ACL DRYRUN), for a sample of each command on a key of ours. No sample is
carried out.
"""

from __future__ import annotations

from typing import NamedTuple

from redis.exceptions import NoPermissionError, ResponseError

from headgate.app.backends.redis.features import Ask
from headgate.app.backends.redis.keys import KeyNames

SAMPLES = """\
CLIENT TRACKING ON BCAST
COMMAND INFO get
COPY {key} {key}
DEL {key}
DUMP {key}
EVALSHA hash 1 {key}
EXEC
EXISTS {key}
FCALL name 1 {key}
FUNCTION LOAD REPLACE text
GET {side}
HDEL {side} field
HGET {side} field
HGETALL {side}
HINCRBY {side} field 1
HKEYS {side}
HLEN {side}
HMGET {side} field
HRANDFIELD {side}
HSET {side} field value
HSETNX {side} field value
INFO
MEMORY USAGE {key}
MULTI
PERSIST {key}
PEXPIRE {key} 1000
PEXPIREAT {key} 1000
PEXPIRETIME {key}
PING
PTTL {key}
RENAME {key} {key}
RESTORE {key} 0 payload
SADD {side} member
SCARD {side}
SCAN 0
SCRIPT LOAD text
SET {side} value
SMEMBERS {side}
SREM {side} member
TIME
TYPE {key}
UNLINK {key}
WATCH {key}
XACK {key} group 1-1
XADD {key} * name value
XAUTOCLAIM {key} group consumer 0 0-0
XCLAIM {key} group consumer 0 1-1
XDEL {key} 1-1
XGROUP CREATE {key} group $
XGROUP CREATECONSUMER {key} group consumer
XGROUP DELCONSUMER {key} group consumer
XGROUP DESTROY {key} group
XGROUP SETID {key} group $
XINFO CONSUMERS {key} group
XINFO GROUPS {key}
XINFO STREAM {key}
XLEN {key}
XPENDING {key} group
XRANGE {key} - +
XREAD STREAMS {key} 0
XREADGROUP GROUP group consumer STREAMS {key} >
XREVRANGE {key} + -
XSETID {key} 1-1
XTRIM {key} MAXLEN 1
ZADD {side} 1 member
ZCARD {side}
ZCOUNT {side} 0 1
ZLEXCOUNT {side} - +
ZPOPMIN {side}
ZRANDMEMBER {side} 1
ZRANGE {side} 0 -1
ZRANGEBYLEX {side} - +
ZRANGEBYSCORE {side} 0 1
ZREM {side} member
ZREMRANGEBYSCORE {side} 0 1
ZSCORE {side} member
"""
"""A sample of each command that the gateway and its functions use."""

_OF_CLUSTERS = "CLUSTER SLOTS\nASKING\n"


class Rights(NamedTuple):
    """The rights of a connection's user."""

    user: str | None  # None: it may not even ask
    lacking: tuple[str, ...]  # commands


async def rights_of(ask: Ask, names: KeyNames, *, is_cluster: bool) -> Rights:
    """Ask a server which of the needed commands this user lacks."""
    stream = names.of(b"headgate-doctor")
    values = {"key": stream.key.decode(), "side": stream.side(b"meta").decode()}
    lacking = []
    try:
        user = (await ask(b"ACL", b"WHOAMI")).decode()
        for sample in (SAMPLES + _OF_CLUSTERS * is_cluster).splitlines():
            words = [word.format(**values) for word in sample.split(" ")]
            if not await _may(ask, user, words):
                lacking.append(_name(words))
    except NoPermissionError:
        return Rights(None, ())
    return Rights(user, tuple(lacking))


async def _may(ask: Ask, user: str, words: list[str]) -> bool:
    try:
        reply = await ask(b"ACL", b"DRYRUN", user, *words)
    except NoPermissionError:
        raise
    except ResponseError:  # the server has no such command, which `features` tells
        return True
    return bool(reply == b"OK")


def _name(words: list[str]) -> str:
    return " ".join(words[: 2 if words[0] in _WITH_SUBCOMMANDS else 1])


_WITH_SUBCOMMANDS = frozenset(
    ("CLIENT", "CLUSTER", "COMMAND", "FUNCTION", "MEMORY", "SCRIPT", "XGROUP", "XINFO")
)
