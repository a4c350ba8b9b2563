"""Key and server commands that every client needs, besides the stream commands."""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence

from headgate.app.auth.grants import Verb
from headgate.app.redis_syntax.command import ANY_RIGHT, CommandTable, LargeReply, SmallReply
from headgate.app.redis_syntax.replies import Reply, Status
from headgate.app.redis_syntax.words import (
    SYNTAX,
    AnyPlan,
    Bounds,
    CommandError,
    Option,
    Options,
    Plan,
    check_names,
    done,
    integer,
    number,
    read_options,
    saying,
    where_missing,
    wrong_arity,
)
from headgate.engine.errors import Invalid, StreamError
from headgate.engine.limits import COUNT_MAX, U64_MAX
from headgate.engine.patterns import matcher
from headgate.engine.replies import NamePage
from headgate.engine.requests import Request
from headgate.engine.requests.keyspace import (
    CountStreams,
    DeleteAll,
    DeleteStreams,
    ExpireStream,
    GetExpiry,
    ListNames,
    PersistStream,
    PickName,
    RenameStream,
    ScanNames,
    TellTime,
    TimeToLive,
)
from headgate.engine.threads import filter_in_turns

_SCAN_COUNT = 10
_CURSOR = re.compile(rb"[0-9]{1,20}")


def ping(words: Sequence[bytes]) -> AnyPlan:
    if len(words) > 2:
        raise wrong_arity("ping")
    return saying(words[1] if len(words) == 2 else Status("PONG"))


def _time_reply(now_ms: int) -> Reply:
    seconds, millis = divmod(now_ms, 1000)
    return [str(seconds).encode(), str(millis * 1000).encode()]


def delete(words: Sequence[bytes]) -> AnyPlan:
    return Plan(DeleteStreams(words[1:]), int)


def exists(words: Sequence[bytes]) -> AnyPlan:
    return Plan(CountStreams(words[1:]), int)


def type_(words: Sequence[bytes]) -> AnyPlan:
    return Plan(CountStreams(words[1:]), lambda count: Status("stream" if count else "none"))


def keys(words: Sequence[bytes], bounds: Bounds) -> AnyPlan:
    matches = matcher(words[1])

    async def finish(names: Reply) -> Reply:
        matching = await filter_in_turns(_names(names), matches)
        limit = bounds.size_bytes_max
        if sum(map(len, matching)) > limit:
            raise CommandError(f"ERR the names have more than {limit} bytes: use SCAN")
        return matching

    return Plan(ListNames(), list, finish=finish)


_ANY_NAME = matcher(b"*")
_SCAN: Options = {
    b"MATCH": Option(matcher),
    b"COUNT": Option(number(1, SYNTAX)),
    b"TYPE": Option(bytes.lower),
}


def scan(words: Sequence[bytes], bounds: Bounds) -> AnyPlan:
    """SCAN cursor [MATCH pattern] [COUNT n] [TYPE type].

    The cursor is the number of keys before it, in byte order.
    """
    cursor = _cursor(words[1])
    given, _ = read_options(words, 2, _SCAN)
    matches = given.get(b"MATCH", _ANY_NAME)
    # COUNT is only a hint: the next cursor continues with the rest.
    count = min(given[b"COUNT"], bounds.entries_max) if b"COUNT" in given else _SCAN_COUNT
    kind = given.get(b"TYPE", b"stream")

    def shape(page: NamePage) -> Reply:
        names = page.names if kind == b"stream" else []
        return [str(page.next_cursor).encode(), names]

    async def finish(reply: Reply) -> Reply:
        assert isinstance(reply, list)
        following, page = reply
        return [following, await filter_in_turns(_names(page), matches)]

    return Plan(ScanNames(cursor, count), shape, finish=finish)


def _names(reply: Reply) -> list[bytes]:
    assert isinstance(reply, list)
    return reply


def _cursor(word: bytes) -> int:
    """Read a cursor of SCAN, an unsigned 64-bit number."""
    if not _CURSOR.fullmatch(word) or int(word) > U64_MAX:
        raise CommandError("ERR invalid cursor")
    return int(word)


def rename(words: Sequence[bytes]) -> AnyPlan:
    check_names(words[2])

    return Plan(RenameStream(words[1], words[2]), done)


def rename_if_free(words: Sequence[bytes]) -> AnyPlan:
    check_names(words[2])
    return Plan(RenameStream(words[1], words[2], replace=False), int)


def random_key(_: object) -> AnyPlan:
    return Plan(PickName(secrets.randbelow(2**32)), lambda name: name)


def flush(words: Sequence[bytes]) -> AnyPlan:
    """FLUSHALL [ASYNC|SYNC], FLUSHDB [ASYNC|SYNC]."""
    if len(words) > 2 or (len(words) == 2 and words[1].upper() not in (b"ASYNC", b"SYNC")):
        raise CommandError(SYNTAX)
    return Plan(DeleteAll(), done)


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
    b"PING": SmallReply(ANY_RIGHT, ping, only_reads=True),
    b"ECHO": SmallReply(ANY_RIGHT, lambda words: saying(words[1]), only_reads=True),
    b"TIME": SmallReply(ANY_RIGHT, lambda _: Plan(TellTime(), _time_reply), only_reads=True),
    b"DEL": SmallReply({Verb.MANAGE}, delete),
    b"UNLINK": SmallReply({Verb.MANAGE}, delete),
    b"EXISTS": SmallReply(ANY_RIGHT, exists, only_reads=True),
    b"TYPE": SmallReply(ANY_RIGHT, type_, only_reads=True),
    b"KEYS": LargeReply(ANY_RIGHT, keys, only_reads=True),
    b"SCAN": LargeReply(ANY_RIGHT, scan, only_reads=True),
    b"DBSIZE": SmallReply(ANY_RIGHT, lambda _: Plan(CountStreams(), int), only_reads=True),
    b"RENAME": SmallReply({Verb.MANAGE}, rename),
    b"TOUCH": SmallReply(ANY_RIGHT, exists, only_reads=True),
    b"RANDOMKEY": SmallReply(ANY_RIGHT, random_key, only_reads=True),
    b"RENAMENX": SmallReply({Verb.MANAGE}, rename_if_free),
    b"FLUSHALL": SmallReply({Verb.ADMIN}, flush),
    b"FLUSHDB": SmallReply({Verb.ADMIN}, flush),
    b"EXPIRE": SmallReply({Verb.MANAGE}, expire),
    b"PEXPIRE": SmallReply({Verb.MANAGE}, expire),
    b"EXPIREAT": SmallReply({Verb.MANAGE}, expire),
    b"PEXPIREAT": SmallReply({Verb.MANAGE}, expire),
    b"EXPIRETIME": SmallReply({Verb.READ}, expire_time, only_reads=True),
    b"PEXPIRETIME": SmallReply({Verb.READ}, expire_time, only_reads=True),
    b"TTL": SmallReply({Verb.READ}, ttl, only_reads=True),
    b"PTTL": SmallReply({Verb.READ}, ttl, only_reads=True),
    b"PERSIST": SmallReply({Verb.MANAGE}, persist),
}
