"""EXPIRE, EXPIREAT, EXPIRETIME, TTL, and those in milliseconds; PERSIST."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from headgate.app.auth.grants import Verb
from headgate.app.redis_syntax.catalog import CHANGING, ONE_READ, ONE_UPDATED, Catalog, key_command
from headgate.app.redis_syntax.command import CommandTable, SmallReply
from headgate.app.redis_syntax.replies import Reply
from headgate.app.redis_syntax.words import AnyPlan, CommandError, Plan, integer, where_missing
from headgate.engine.errors import Invalid, StreamError
from headgate.engine.limits import COUNT_MAX
from headgate.engine.requests import Request
from headgate.engine.requests.keyspace import ExpireStream, GetExpiry, PersistStream, TimeToLive

_CONDITION: Final = "[condition@7.0.0(NX | XX | GT | LT)]"


def expire(words: Sequence[bytes]) -> AnyPlan:
    """EXPIRE key seconds [NX|XX|GT|LT], PEXPIRE, EXPIREAT, PEXPIREAT key time [...]."""
    name = words[0].upper()
    time_ms = integer(words[2]) * (1 if name.startswith(b"P") else 1000)
    conditions = {word.upper() for word in words[3:]}
    if unknown := conditions - {b"NX", b"XX", b"GT", b"LT"}:
        raise CommandError(f"ERR Unsupported option {min(unknown).decode('latin-1')}")
    if b"NX" in conditions and len(conditions) > 1:
        text = "NX and XX, GT or LT options at the same time are not compatible"
        raise CommandError(f"ERR {text}")
    if {b"GT", b"LT"} <= conditions:
        raise CommandError("ERR GT and LT options at the same time are not compatible")
    out_of_range = f"ERR invalid expire time in '{name.decode().lower()}' command"
    if abs(time_ms) > COUNT_MAX:
        raise CommandError(out_of_range)

    request = ExpireStream(
        words[1],
        0 if name.endswith(b"AT") else time_ms,
        if_none=b"NX" in conditions,
        if_set=b"XX" in conditions,
        if_later=b"GT" in conditions,
        if_earlier=b"LT" in conditions,
        at_ms=time_ms if name.endswith(b"AT") else None,
    )

    def refuse(error: StreamError) -> Reply:
        if isinstance(error, Invalid):
            raise CommandError(out_of_range)
        return where_missing(0)(error)

    return Plan(request, int, refuse)


def expire_time(words: Sequence[bytes]) -> AnyPlan:
    """EXPIRETIME key, PEXPIRETIME key."""
    return _telling(GetExpiry(words[1]), words)


def ttl(words: Sequence[bytes]) -> AnyPlan:
    """TTL key, PTTL key."""
    return _telling(TimeToLive(words[1]), words)


def _telling(request: Request[int | None], words: Sequence[bytes]) -> AnyPlan:
    """Return the plan of a command for a time, in ms if its name begins with P."""
    is_ms = words[0].upper().startswith(b"P")

    def shape(time_ms: int | None) -> Reply:
        if time_ms is None:
            return -1
        return time_ms if is_ms else (time_ms + 500) // 1000

    return Plan(request, shape, where_missing(-2))


def persist(words: Sequence[bytes]) -> AnyPlan:
    """PERSIST key."""
    return Plan(PersistStream(words[1]), int, where_missing(0))


COMMANDS: CommandTable = {
    b"EXPIRE": SmallReply(-3, {Verb.MANAGE}, expire),
    b"PEXPIRE": SmallReply(-3, {Verb.MANAGE}, expire),
    b"EXPIREAT": SmallReply(-3, {Verb.MANAGE}, expire),
    b"PEXPIREAT": SmallReply(-3, {Verb.MANAGE}, expire),
    b"EXPIRETIME": SmallReply(2, {Verb.READ}, expire_time, only_reads=True),
    b"PEXPIRETIME": SmallReply(2, {Verb.READ}, expire_time, only_reads=True),
    b"TTL": SmallReply(2, {Verb.READ}, ttl, only_reads=True),
    b"PTTL": SmallReply(2, {Verb.READ}, ttl, only_reads=True),
    b"PERSIST": SmallReply(2, {Verb.MANAGE}, persist),
}

CATALOG: Catalog = {
    "expire": key_command(
        "Let a key expire in so many seconds.",
        "1.0.0",
        usage=f"key seconds:integer {_CONDITION}",
        flags="write fast",
        keys=ONE_UPDATED,
    ),
    "pexpire": key_command(
        "Let a key expire in so many milliseconds.",
        "2.6.0",
        usage=f"key milliseconds:integer {_CONDITION}",
        flags="write fast",
        keys=ONE_UPDATED,
    ),
    "expireat": key_command(
        "Let a key expire at a unix time, in seconds.",
        "1.2.0",
        usage=f"key unix-time-seconds:unix-time {_CONDITION}",
        flags="write fast",
        keys=ONE_UPDATED,
    ),
    "pexpireat": key_command(
        "Let a key expire at a unix time, in milliseconds.",
        "2.6.0",
        usage=f"key unix-time-milliseconds:unix-time {_CONDITION}",
        flags="write fast",
        keys=ONE_UPDATED,
    ),
    "expiretime": key_command(
        "Return the unix time at which a key expires, in seconds.",
        "7.0.0",
        usage="key",
        flags="readonly fast",
        keys=ONE_READ,
    ),
    "pexpiretime": key_command(
        "Return the unix time at which a key expires, in milliseconds.",
        "7.0.0",
        usage="key",
        flags="readonly fast",
        keys=ONE_READ,
    ),
    "ttl": key_command(
        "Return in how many seconds a key expires.",
        "1.0.0",
        usage="key",
        flags="readonly fast",
        keys=ONE_READ,
        tips=CHANGING,
    ),
    "pttl": key_command(
        "Return in how many milliseconds a key expires.",
        "2.6.0",
        usage="key",
        flags="readonly fast",
        keys=ONE_READ,
        tips=CHANGING,
    ),
    "persist": key_command(
        "Let a key no longer expire.", "2.2.0", usage="key", flags="write fast", keys=ONE_UPDATED
    ),
}
