"""EXPIRE, EXPIREAT, EXPIRETIME, TTL, and those in milliseconds; PERSIST."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.app.auth.grants import Verb
from headgate.app.redis_syntax.command import CommandTable, SmallReply
from headgate.app.redis_syntax.replies import Reply
from headgate.app.redis_syntax.words import AnyPlan, CommandError, Plan, integer, where_missing
from headgate.engine.errors import Invalid, StreamError
from headgate.engine.limits import COUNT_MAX
from headgate.engine.requests import Request
from headgate.engine.requests.keyspace import ExpireStream, GetExpiry, PersistStream, TimeToLive


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
