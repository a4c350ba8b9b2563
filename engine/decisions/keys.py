"""Decisions about idempotency keys: earlier appends under a key, and the time a key is valid."""

from __future__ import annotations

from headgate.engine.commands import KeyRemembered, KeysForgotten
from headgate.engine.config import StreamConfig
from headgate.engine.decisions import Decision, Decisions
from headgate.engine.errors import EntryNotFound, IdempotencyMismatch
from headgate.engine.limits import FORGOTTEN_KEYS_MS
from headgate.engine.requests.idempotency import Idempotent
from headgate.engine.requests.keyspace import RememberKey
from headgate.engine.state.idempotency import Made
from headgate.engine.state.keyspace import Keyspace
from headgate.engine.state.stream import Stream


def made_before(
    keyspace: Keyspace, stream: Stream | None, idempotent: Idempotent | None, now_ms: int
) -> Made | None:
    if stream is None or idempotent is None:
        return None
    since_ms = keyspace.steady_ms(now_ms) - key_window_ms(keyspace, stream)
    made = stream.keys.find(idempotent, since_ms)
    is_told = bool(idempotent.digest) or (made is not None and not made.length)
    if made is not None and is_told and idempotent.digest != made.digest:
        raise IdempotencyMismatch(idempotent.key)
    return made


def key_window_ms(keyspace: Keyspace, stream: Stream) -> int:
    return key_limits(keyspace, stream.config)[0]


def keys_max(keyspace: Keyspace, stream: Stream) -> int:
    return key_limits(keyspace, stream.config)[1]


def key_limits(keyspace: Keyspace, config: StreamConfig) -> tuple[int, int]:
    """Return the limits of keys under a configuration: their time, and their count by producer."""
    window_ms, keys_max = config.idempotency_window_ms, config.idempotency_max
    return (
        keyspace.defaults.idempotency_window_ms if window_ms is None else window_ms,
        keyspace.defaults.idempotency_max if keys_max is None else keys_max,
    )


def remember_key(keyspace: Keyspace, request: RememberKey, now_ms: int) -> Decision[None]:
    stream, entry_id = keyspace.stream(request.stream), request.entry_id
    if not stream.log.has(entry_id):
        raise EntryNotFound(request.stream, entry_id)
    made = made_before(keyspace, stream, Idempotent(request.producer, request.key), now_ms)
    if made is not None:
        if made.first_id != entry_id:
            raise IdempotencyMismatch(request.key)
        return Decision(None, [])
    made, count_max = Made(entry_id, 1, b"", now_ms), keys_max(keyspace, stream)
    remembered = KeyRemembered(request.stream, request.producer, request.key, made, count_max)
    return Decision(None, [remembered])


def forget_keys(keyspace: Keyspace, stream: bytes, now_ms: int) -> Decision[None]:
    """Decide to forget the oldest `FORGOTTEN_KEYS_MS` of old keys; repeat until no commands."""
    stream_state = keyspace.stream(stream)
    before_ms = now_ms - key_window_ms(keyspace, stream_state)
    first_at_ms = stream_state.keys.first_at_ms
    if first_at_ms is None or first_at_ms >= keyspace.steady_ms(before_ms):
        return Decision(None, [])
    some_ms = keyspace.wall_ms(first_at_ms) + FORGOTTEN_KEYS_MS
    return Decision(None, [KeysForgotten(stream, min(before_ms, some_ms))])


DECISIONS: Decisions = {RememberKey: remember_key}
