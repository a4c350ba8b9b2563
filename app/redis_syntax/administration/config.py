"""CONFIG: the settings that clients can read, and those they can set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from headgate.app.auth.grants import Verb
from headgate.app.redis_syntax.administration.information import (
    LENGTH_MAX,
    Counters,
    Information,
    ServerSettings,
)
from headgate.app.redis_syntax.command import CommandTable, SmallReply
from headgate.app.redis_syntax.replies import Pairs, Reply
from headgate.app.redis_syntax.words import (
    OK,
    SYNTAX,
    AnyPlan,
    CommandError,
    Plan,
    integer,
    telling,
)
from headgate.engine.limits import (
    COUNT_MAX,
    IDEMPOTENCY_KEYS_MAX,
    IDEMPOTENCY_WINDOW_MS_MAX,
    IDEMPOTENCY_WINDOW_MS_MIN,
)
from headgate.engine.patterns import PATTERN_BYTES_MAX, matcher
from headgate.engine.replies import StreamDefaults
from headgate.engine.requests.keyspace import ChangeDefaults, GetDefaults


class _Setting(NamedTuple):
    """A setting that can be changed: a field of the defaults of streams, its unit and bounds."""

    field: str
    factor: int  # converts a value to the unit of the field
    minimum: int
    maximum: int


_OF_STREAMS = {
    "stream-node-max-bytes": _Setting("node_bytes_max", 1, 0, COUNT_MAX),
    "stream-node-max-entries": _Setting("node_entries_max", 1, 0, COUNT_MAX),
    "stream-idmp-duration": _Setting(
        "idempotency_window_ms",
        1000,
        IDEMPOTENCY_WINDOW_MS_MIN // 1000,
        IDEMPOTENCY_WINDOW_MS_MAX // 1000,
    ),
    "stream-idmp-maxsize": _Setting("idempotency_max", 1, 1, IDEMPOTENCY_KEYS_MAX),
}

_OF_SLOW_LOG = {
    "slowlog-log-slower-than": _Setting("threshold_us", 1, -1, COUNT_MAX),
    "slowlog-max-len": _Setting("length_max", 1, 0, LENGTH_MAX),
}

_MUTABLE = {**_OF_STREAMS, **_OF_SLOW_LOG}


def _fixed(settings: ServerSettings) -> Mapping[str, str]:
    yes = {True: "yes", False: "no"}
    output_bytes = settings.output_bytes_max
    return {
        "appendfsync": settings.fsync,
        "appendonly": yes[settings.has_journal],
        "bind": settings.host,
        "client-output-buffer-limit": f"normal {output_bytes} 0 0 slave 0 0 0 pubsub 0 0 0",
        "client-query-buffer-limit": str(settings.input_bytes_max),
        "cluster-enabled": "no",
        "databases": "1",
        "dir": settings.data_dir,
        "latency-monitor-threshold": "0",
        "maxclients": str(settings.connections_max),
        "maxmemory": str(settings.memory_bytes_max),
        "maxmemory-policy": settings.memory_policy,
        "notify-keyspace-events": "",
        "port": "0" if settings.has_tls else str(settings.port),
        "proto-max-bulk-len": str(settings.argument_bytes_max),
        "save": "",
        "tcp-keepalive": "0",
        "timeout": str(settings.idle_s_max),
        "tls-port": str(settings.port) if settings.has_tls else "0",
    }


class Configuration:
    def __init__(self, information: Information, counters: Counters) -> None:
        self._information = information
        self._counters = counters

    @property
    def table(self) -> CommandTable:
        return {
            b"GET": SmallReply({Verb.ADMIN}, self._get, only_reads=True),
            b"SET": SmallReply({Verb.ADMIN}, self._set),
            b"RESETSTAT": SmallReply({Verb.ADMIN}, telling(self._reset)),
        }

    def _get(self, words: Sequence[bytes]) -> AnyPlan:
        patterns = words[2:]
        if sum(map(len, patterns)) > PATTERN_BYTES_MAX:  # all patterns are compiled
            text = f"ERR patterns are longer than {PATTERN_BYTES_MAX} bytes together"
            raise CommandError(text)
        matchers = [matcher(pattern.lower()) for pattern in patterns]

        def shape(defaults: StreamDefaults) -> Reply:
            values = self._values(defaults)
            return Pairs(
                part.encode()
                for name in sorted(values)
                if any(matches(name.encode()) for matches in matchers)
                for part in (name, values[name])
            )

        return Plan(GetDefaults(), shape)

    def _values(self, defaults: StreamDefaults) -> Mapping[str, str]:
        of_streams = {
            name: str(getattr(defaults, setting.field) // setting.factor)
            for name, setting in _OF_STREAMS.items()
        }
        log = self._counters.slow_log
        of_log = {name: str(getattr(log, each.field)) for name, each in _OF_SLOW_LOG.items()}
        return {**_fixed(self._information.settings), **of_streams, **of_log}

    def _set(self, words: Sequence[bytes]) -> AnyPlan:
        if len(words) % 2:
            raise CommandError(SYNTAX)
        values: dict[str, int] = {}
        for word, text in zip(words[2::2], words[3::2], strict=True):
            name = word.decode("latin-1")
            if name.lower() in values:
                raise CommandError(_failed(name, "duplicate parameter"))
            values[name.lower()] = self._value(name, text)
        of_streams = {
            setting.field: values[name] * setting.factor
            for name, setting in _OF_STREAMS.items()
            if name in values
        }

        def shape(_: None) -> Reply:
            for name, setting in _OF_SLOW_LOG.items():
                if name in values:
                    setattr(self._counters.slow_log, setting.field, values[name])
            return OK

        return Plan(ChangeDefaults(**of_streams), shape)

    def _value(self, name: str, text: bytes) -> int:
        setting = _MUTABLE.get(name.lower())
        if setting is None:
            if name.lower() in _fixed(self._information.settings):
                raise CommandError(_failed(name, "can't set immutable config"))
            unknown = "ERR Unknown option or number of arguments for CONFIG SET"
            raise CommandError(f"{unknown} - '{name}'")
        value = integer(text, _failed(name, "argument couldn't be parsed into an integer"))
        minimum, maximum = setting.minimum, setting.maximum
        if not minimum <= value <= maximum:
            why = f"argument must be between {minimum} and {maximum} inclusive"
            raise CommandError(_failed(name, why))
        return value

    def _reset(self) -> Reply:
        self._counters.reset()
        return OK


def _failed(name: str, why: str) -> str:
    return f"ERR CONFIG SET failed (possibly related to argument '{name}') - {why}"
