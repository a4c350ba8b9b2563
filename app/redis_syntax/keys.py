"""The key commands without which a client cannot live, and what it asks of a server."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import msgspec

from headgate.app.redis_syntax.glob import PATTERN_BYTES_MAX, matcher
from headgate.app.redis_syntax.words import (
    OK,
    SYNTAX,
    Bounds,
    CommandError,
    Plan,
    Reply,
    Status,
    at_once,
    check_names,
    done,
    integer,
    wrong_arity,
)
from headgate.app.runtime.turns import Turn
from headgate.engine.commands import DefaultsSet
from headgate.engine.decisions import Decision, streams
from headgate.engine.limits import (
    IDEMPOTENCY_KEYS_MAX,
    IDEMPOTENCY_WINDOW_MS_MAX,
    IDEMPOTENCY_WINDOW_MS_MIN,
    U64_MAX,
)
from headgate.engine.state.defaults import Defaults
from headgate.engine.state.keyspace import Keyspace

_SCAN_COUNT = 10
_CURSOR = re.compile(rb"[0-9]{1,20}")


def ping(words: Sequence[bytes]) -> Plan:
    """PING [message]."""
    if len(words) > 2:
        raise wrong_arity("ping")
    return _told(words[1] if len(words) == 2 else Status("PONG"))


def echo(words: Sequence[bytes]) -> Plan:
    """ECHO message."""
    return _told(words[1])


def time(words: Sequence[bytes]) -> Plan:
    """TIME."""
    del words

    def step(keyspace: Keyspace, now_ms: int) -> Decision[Reply]:
        del keyspace
        seconds, rest_ms = divmod(now_ms, 1000)
        return Decision([str(seconds).encode(), str(rest_ms * 1000).encode()], [])

    return at_once(step)


def delete(words: Sequence[bytes]) -> Plan:
    """DEL key [key ...], UNLINK key [key ...]."""

    def step(keyspace: Keyspace, now_ms: int) -> Decision[Reply]:
        return streams.delete_streams(keyspace, words[1:], now_ms).replied_as(int)

    return at_once(step)


def exists(words: Sequence[bytes]) -> Plan:
    """EXISTS key [key ...]."""
    return _asked(lambda keyspace: sum(keyspace.find(key) is not None for key in words[1:]))


def type_(words: Sequence[bytes]) -> Plan:
    """TYPE key."""
    return _asked(lambda k: Status("none" if k.find(words[1]) is None else "stream"))


def keys(words: Sequence[bytes], bounds: Bounds) -> Plan:
    """KEYS pattern."""
    matches = matcher(words[1])
    plan = _asked(lambda keyspace: list(keyspace.streams))

    async def finish(found: Reply) -> Reply:
        return await _matching(_names(found), matches, bounds.size_bytes_max)

    return Plan(plan.step, finish=finish)


def dbsize(words: Sequence[bytes]) -> Plan:
    """DBSIZE."""
    del words
    return _asked(lambda keyspace: len(keyspace.streams))


def scan(words: Sequence[bytes], bounds: Bounds) -> Plan:
    """SCAN cursor [MATCH pattern] [COUNT n] [TYPE type]. The cursor counts keys in byte order."""
    cursor = _cursor(words[1])
    matches, count, kind, at = matcher(b"*"), _SCAN_COUNT, b"stream", 2
    while at < len(words):
        name = words[at].upper()
        if at + 1 >= len(words) or name not in (b"MATCH", b"COUNT", b"TYPE"):
            raise CommandError(SYNTAX)
        if name == b"MATCH":
            matches = matcher(words[at + 1])
        elif name == b"TYPE":
            kind = words[at + 1].lower()
        else:
            # It is a hint: the rest comes with the next cursor.
            count = min(integer(words[at + 1]), bounds.entries_max)
            if count < 1:
                raise CommandError(SYNTAX)
        at += 2

    def look(keyspace: Keyspace) -> Reply:
        most = len(keyspace.streams)  # a place beyond is none, however far
        start, end = min(cursor, most), min(cursor + count, most)
        page = list(keyspace.streams.islice(start, end))
        following = end if end < most else 0
        return [str(following).encode(), page if kind == b"stream" else []]

    async def finish(found: Reply) -> Reply:
        assert isinstance(found, list)
        following, page = found
        return [following, await _matching(_names(page), matches, None)]

    return Plan(_asked(look).step, finish=finish)


def _names(found: Reply) -> list[bytes]:
    assert isinstance(found, list)
    return found


async def _matching(
    names: list[bytes], matches: Callable[[bytes], bool], size_bytes_max: int | None
) -> Reply:
    turn, found, size_bytes = Turn(), [], 0
    for name in names:
        if matches(name):
            found.append(name)
            size_bytes += len(name)
        await turn.pause()
    if size_bytes_max is not None and size_bytes > size_bytes_max:
        raise CommandError(f"ERR the names have more than {size_bytes_max} bytes: use SCAN")
    return found


def _cursor(word: bytes) -> int:
    """Read a cursor of SCAN: an unsigned 64-bit number."""
    if not _CURSOR.fullmatch(word) or int(word) > U64_MAX:
        raise CommandError("ERR invalid cursor")
    return int(word)


def rename(words: Sequence[bytes]) -> Plan:
    """RENAME key newkey."""
    check_names(words[2])

    def step(keyspace: Keyspace, now_ms: int) -> Decision[Reply]:
        del now_ms
        return Decision(OK, streams.rename(keyspace, words[1], words[2]).commands)

    return at_once(step)


def expire(words: Sequence[bytes]) -> Plan:
    """EXPIRE key seconds [NX|XX|GT|LT], PEXPIRE key milliseconds [...]."""
    name = words[0].upper()
    unit_ms = 1 if name == b"PEXPIRE" else 1000
    value = integer(words[2])
    conditions = {word.upper() for word in words[3:]}
    if unknown := conditions - {b"NX", b"XX", b"GT", b"LT"}:
        raise CommandError(f"ERR Unsupported option {min(unknown).decode('latin-1')}")
    if b"NX" in conditions and len(conditions) > 1:
        text = "NX and XX, GT or LT options at the same time are not compatible"
        raise CommandError(f"ERR {text}")
    if {b"GT", b"LT"} <= conditions:
        raise CommandError("ERR GT and LT options at the same time are not compatible")

    def step(keyspace: Keyspace, now_ms: int) -> Decision[Reply]:
        stream = keyspace.find(words[1])
        at_ms = now_ms + value * unit_ms
        if not -(2**63) <= at_ms < 2**63:
            command = name.decode().lower()
            raise CommandError(f"ERR invalid expire time in '{command}' command")
        if stream is None or not _may_expire(stream.expires_at_ms, at_ms, conditions):
            return Decision(0, [])
        if at_ms <= now_ms:
            return Decision(1, streams.delete_stream(keyspace, words[1]).commands)
        return Decision(1, streams.set_expiry(keyspace, words[1], at_ms).commands)

    return at_once(step)


def _may_expire(current: int | None, at_ms: int, conditions: set[bytes]) -> bool:
    if b"NX" in conditions:
        return current is None
    if b"XX" in conditions and current is None:
        return False
    if b"GT" in conditions:
        return current is not None and at_ms > current
    return b"LT" not in conditions or current is None or at_ms < current


def ttl(words: Sequence[bytes]) -> Plan:
    """TTL key, PTTL key."""
    is_ms = words[0].upper() == b"PTTL"

    def step(keyspace: Keyspace, now_ms: int) -> Decision[Reply]:
        stream = keyspace.find(words[1])
        if stream is None:
            return Decision(-2, [])
        if stream.expires_at_ms is None:
            return Decision(-1, [])
        left_ms = max(stream.expires_at_ms - now_ms, 0)
        return Decision(left_ms if is_ms else (left_ms + 500) // 1000, [])

    return at_once(step)


def persist(words: Sequence[bytes]) -> Plan:
    """PERSIST key."""

    def step(keyspace: Keyspace, now_ms: int) -> Decision[Reply]:
        del now_ms
        stream = keyspace.find(words[1])
        if stream is None or stream.expires_at_ms is None:
            return Decision(0, [])
        return Decision(1, streams.set_expiry(keyspace, words[1], None).commands)

    return at_once(step)


def flush(words: Sequence[bytes]) -> Plan:
    """FLUSHALL [ASYNC|SYNC], FLUSHDB [ASYNC|SYNC]."""
    if len(words) > 2 or (len(words) == 2 and words[1].upper() not in (b"ASYNC", b"SYNC")):
        raise CommandError(SYNTAX)

    def step(keyspace: Keyspace, now_ms: int) -> Decision[Reply]:
        del now_ms
        return streams.flush(keyspace).replied_as(done)

    return at_once(step)


_SETTINGS: dict[bytes, tuple[Callable[[Defaults], int], int, int]] = {
    b"stream-node-max-bytes": (lambda d: d.node_limits.size_bytes_max, 0, 2**63 - 1),
    b"stream-node-max-entries": (lambda d: d.node_limits.entries_max, 0, 2**63 - 1),
    b"stream-idmp-duration": (
        lambda d: d.idempotency_window_ms // 1000,
        IDEMPOTENCY_WINDOW_MS_MIN // 1000,
        IDEMPOTENCY_WINDOW_MS_MAX // 1000,
    ),
    b"stream-idmp-maxsize": (lambda d: d.idempotency_max, 1, IDEMPOTENCY_KEYS_MAX),
}


def config(words: Sequence[bytes]) -> Plan:
    """CONFIG GET pattern [pattern ...], CONFIG SET name value [name value ...]."""
    action = words[1].upper()
    if action == b"GET" and len(words) > 2:
        return _config_get(words[2:])
    if action == b"SET" and len(words) > 3 and len(words) % 2 == 0:
        return _config_set(dict(zip(words[2::2], words[3::2], strict=True)))
    if action in (b"GET", b"SET"):
        raise wrong_arity(f"config|{action.decode().lower()}")
    name = words[1].decode("latin-1")
    raise CommandError(f"ERR unknown subcommand '{name}'. Try CONFIG HELP.")


def _config_get(patterns: Sequence[bytes]) -> Plan:
    if sum(map(len, patterns)) > PATTERN_BYTES_MAX:  # together: each has to be compiled
        raise CommandError(f"ERR patterns are longer than {PATTERN_BYTES_MAX} bytes together")
    matchers = [matcher(pattern.lower()) for pattern in patterns]

    def look(keyspace: Keyspace) -> Reply:
        found: list[Reply] = []
        for name, (value, _, _) in _SETTINGS.items():
            if any(matches(name) for matches in matchers):
                found += [name, str(value(keyspace.defaults)).encode()]
        return found

    return _asked(look)


def _config_set(pairs: dict[bytes, bytes]) -> Plan:
    values = {name.lower(): _setting(name, text) for name, text in pairs.items()}

    def step(keyspace: Keyspace, now_ms: int) -> Decision[Reply]:
        del now_ms
        now = keyspace.defaults
        limits = now.node_limits._replace(
            size_bytes_max=values.get(b"stream-node-max-bytes", now.node_limits.size_bytes_max),
            entries_max=values.get(b"stream-node-max-entries", now.node_limits.entries_max),
        )
        window_s = values.get(b"stream-idmp-duration", now.idempotency_window_ms // 1000)
        changed = msgspec.structs.replace(
            now,
            node_limits=limits,
            idempotency_window_ms=window_s * 1000,
            idempotency_max=values.get(b"stream-idmp-maxsize", now.idempotency_max),
        )
        return Decision(OK, [DefaultsSet(changed)] if changed != now else [])

    return at_once(step)


def _setting(name: bytes, text: bytes) -> int:
    shown = name.decode("latin-1")
    if name.lower() not in _SETTINGS:
        text_ = f"Unknown option or number of arguments for CONFIG SET - '{shown}'"
        raise CommandError(f"ERR {text_}")
    _, least, most = _SETTINGS[name.lower()]
    failed = f"ERR CONFIG SET failed (possibly related to argument '{shown}') - argument"
    value = integer(text, f"{failed} couldn't be parsed into an integer")
    if not least <= value <= most:
        raise CommandError(f"{failed} must be between {least} and {most} inclusive")
    return value


def _told(reply: Reply) -> Plan:
    return at_once(lambda keyspace, now_ms: Decision(reply, []))  # noqa: ARG005


def _asked(look: Callable[[Keyspace], Reply]) -> Plan:
    return at_once(lambda keyspace, now_ms: Decision(look(keyspace), []))  # noqa: ARG005
