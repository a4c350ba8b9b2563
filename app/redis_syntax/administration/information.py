"""INFO: facts and counters of the server, by section. Unknown values are left out."""

from __future__ import annotations

import asyncio
import os
import platform
import resource
import secrets
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from typing import NamedTuple

from headgate.app.auth.grants import Verb
from headgate.app.backends.port import Backend, ServerFacts
from headgate.app.redis_syntax.command import SmallReply, SubcommandTable, error_text
from headgate.app.redis_syntax.replies import Reply, Verbatim
from headgate.app.redis_syntax.words import OK, AnyPlan, CommandError, Plan, number, telling
from headgate.app.runtime import machine
from headgate.engine.clock import Clock
from headgate.engine.errors import StreamError, Unavailable
from headgate.engine.replies import JournalStatus, KeyspaceInfo, LeaderRole
from headgate.engine.requests.keyspace import DescribeKeyspace, GetDefaults


class ConnectionFacts(NamedTuple):
    """The Redis connections of this process; all 0 without a port for them."""

    port: int = 0
    connected_count: int = 0
    accepted_count: int = 0  # since the start
    rejected_count: int = 0  # likewise: there were too many
    input_bytes: int = 0  # likewise
    output_bytes: int = 0  # likewise


class ServerSettings(NamedTuple):
    host: str = ""  # where Redis clients connect
    port: int = 0  # 0: nowhere
    data_dir: str = ""
    has_journal: bool = False
    fsync: str = "no"  # always, everysec or no
    memory_bytes_max: int = 0  # of the streams; 0: no bound
    memory_policy: str = "noeviction"  # what happens when memory is full
    connections_max: int = 0
    idle_s_max: int = 0  # after which a connection is ended; 0: never
    input_bytes_max: int = 0  # that one connection may have sent and that are not run
    output_bytes_max: int = 0  # that one connection may have to take
    argument_bytes_max: int = 512 * 2**20  # of one word of a command
    config_file: str = ""
    has_tls: bool = False


LENGTH_MAX = 10_000
"""Largest length of the log."""

_WORDS_MAX = 32
_WORD_BYTES_MAX = 128
_WAITING = frozenset({"xread", "xreadgroup", "wait", "waitaof", "save"})
"""Commands that may take long because they wait."""


class SlowCommand(NamedTuple):
    """A command that took long."""

    number: int
    at_s: int
    elapsed_us: int
    words: tuple[bytes, ...]

    def reply(self) -> Reply:
        """Return it as SLOWLOG GET does. Which client it was is not known."""
        return [self.number, self.at_s, self.elapsed_us, list(self.words), b"", b""]


class SlowLog:
    """The latest commands that took long, the newest first."""

    def __init__(self, clock: Clock) -> None:
        """Begin with none; the clock tells when commands were run."""
        self._clock = clock
        self.threshold_us = 10_000  # negative: nothing is noted
        self._commands: deque[SlowCommand] = deque(maxlen=128)
        self._next_number = 0

    @property
    def length_max(self) -> int:
        """Return how many commands are kept."""
        return self._commands.maxlen or 0

    @length_max.setter
    def length_max(self, length_max: int) -> None:
        latest = list(self._commands)[:length_max]
        self._commands = deque(latest, maxlen=length_max)

    def note(self, command: str, words: Sequence[bytes], elapsed_s: float) -> None:
        """Note a command, if it took long and did not wait for anything."""
        elapsed_us = round(elapsed_s * 1_000_000)
        if self.threshold_us < 0 or elapsed_us < self.threshold_us or command in _WAITING:
            return
        kept, at_s = _shortened(words), self._clock.wall_ms() // 1000
        self._commands.appendleft(SlowCommand(self._next_number, at_s, elapsed_us, kept))
        self._next_number += 1

    def latest(self, count: int | None) -> list[SlowCommand]:
        """Return the latest commands; None: all."""
        return list(self._commands)[:count]

    def __len__(self) -> int:
        """Return how many commands there are."""
        return len(self._commands)

    def clear(self) -> None:
        """Forget them."""
        self._commands.clear()


def _shortened(words: Sequence[bytes]) -> tuple[bytes, ...]:
    """Return words with the marks that Redis puts where it leaves something out."""
    kept = [_shortened_word(word) for word in words[:_WORDS_MAX]]
    if len(words) > _WORDS_MAX:
        kept[-1] = b"... (%d more arguments)" % (len(words) - _WORDS_MAX + 1)
    return tuple(kept)


def _shortened_word(word: bytes) -> bytes:
    more = len(word) - _WORD_BYTES_MAX
    return bytes(word) if more <= 0 else b"%b... (%d more bytes)" % (word[:_WORD_BYTES_MAX], more)


_SLOW_COUNT = 10
_NO_COUNT = "ERR count should be greater than or equal to -1"
_slow_count = number(-1, _NO_COUNT, if_none=_NO_COUNT)


class Diagnosis:
    """Answers SLOWLOG and LATENCY LATEST, which exporters read."""

    def __init__(self, slow_log: SlowLog) -> None:
        """Show a log of slow commands."""
        self._slow_log = slow_log

    @property
    def tables(self) -> SubcommandTable:
        """Return the subcommands of each."""
        admin, log = {Verb.ADMIN}, self._slow_log
        return {
            b"SLOWLOG": {
                b"GET": SmallReply(admin, self._slow_commands, only_reads=True),
                b"LEN": SmallReply(admin, telling(log.__len__), only_reads=True),
                b"RESET": SmallReply(admin, telling(self._forget)),
            },
            b"LATENCY": {b"LATEST": SmallReply(admin, telling(list), only_reads=True)},
        }

    def _forget(self) -> Reply:
        self._slow_log.clear()
        return OK

    def _slow_commands(self, words: Sequence[bytes]) -> AnyPlan:
        """SLOWLOG GET [count]."""
        if len(words) > 3:
            text = "unknown subcommand or wrong number of arguments for 'GET'. Try SLOWLOG HELP."
            raise CommandError(f"ERR {text}")
        count = _slow_count(words[2]) if len(words) == 3 else _SLOW_COUNT

        def shape(_: object) -> Reply:
            return [each.reply() for each in self._slow_log.latest(None if count < 0 else count)]

        return Plan(GetDefaults(), shape)


def human(size_bytes: int) -> str:
    """Return a size in the human-readable format of Redis: `1.50M`."""
    if size_bytes < 1024:
        return f"{size_bytes}B"
    size, unit = float(size_bytes), ""
    for unit in "KMGTP":  # noqa: B007 the last one is used
        size /= 1024
        if size < 1024:
            break
    return f"{size:.2f}{unit}"


@dataclass
class CommandCounts:
    calls: int = 0
    elapsed_us: int = 0
    rejected: int = 0  # not run: a wrong number of words
    failed: int = 0

    def __str__(self) -> str:
        average_us = self.elapsed_us / self.calls if self.calls else 0.0
        return (
            f"calls={self.calls},usec={self.elapsed_us},usec_per_call={average_us:.2f},"
            f"rejected_calls={self.rejected},failed_calls={self.failed}"
        )


class CallRate:
    def __init__(self) -> None:
        self._second = 0
        self._count = 0  # in this second
        self._last_count = 0  # in the one before

    def note(self, now_s: float, calls: int) -> None:
        self._reach(int(now_s))
        self._count += calls

    def per_second(self, now_s: float) -> int:
        self._reach(int(now_s))
        return self._last_count

    def _reach(self, second: int) -> None:
        if second != self._second:
            self._last_count = self._count if second == self._second + 1 else 0
            self._second, self._count = second, 0


class Counters:
    def __init__(self, clock: Clock) -> None:
        self.commands: dict[str, CommandCounts] = {}
        self.errors: Counter[str] = Counter()
        self.delivered_count = 0  # entries in replies
        self.slow_log = SlowLog(clock)
        self._rate = CallRate()

    @contextmanager
    def running(self, command: str, words: Sequence[bytes] = ()) -> Iterator[None]:
        started_s = time.perf_counter()
        failure: StreamError | None = None
        try:
            yield
        except StreamError as error:
            failure = error
            raise
        finally:
            elapsed_s = time.perf_counter() - started_s
            self.count(command, elapsed_s, failure)
            self.slow_log.note(command, words, elapsed_s)
            del failure  # it knows this frame

    def count(
        self,
        command: str,
        elapsed_s: float = 0.0,
        failure: StreamError | None = None,
        *,
        calls: int = 1,
    ) -> None:
        counts = self._counts_of(command)
        elapsed_us = round(elapsed_s * 1_000_000)
        counts.calls += calls
        counts.elapsed_us += elapsed_us * calls
        self._rate.note(time.perf_counter(), calls)
        if failure is not None:
            counts.failed += 1
            self._count_error(failure)

    def reject(self, command: str | None, failure: StreamError) -> None:
        """Count a command that was not run; None stands for an unknown command."""
        self._count_error(failure)
        if command is not None:
            self._counts_of(command).rejected += 1

    def reset(self) -> None:
        self.commands.clear()
        self.errors.clear()

    @property
    def call_count(self) -> int:
        return sum(counts.calls for counts in self.commands.values())

    @property
    def calls_per_s(self) -> int:
        """Return the number of calls in the last complete second."""
        return self._rate.per_second(time.perf_counter())

    def _counts_of(self, command: str) -> CommandCounts:
        counts = self.commands.get(command)
        if counts is None:
            counts = self.commands[command] = CommandCounts()
        return counts

    def _count_error(self, error: StreamError) -> None:
        self.errors[error_text(error).partition(" ")[0]] += 1


SPOKEN_VERSION = "8.10.1"
"""The version of Redis whose stream commands these are."""

_MORE = frozenset({"commandstats"})  # shown only on request
_ALL = {"all", "everything"}
_USUAL = {"default", *_ALL}

_S_PER_DAY = 86_400

Lines = dict[str, object]


class Information:
    def __init__(self, backend: Backend, counters: Counters, clock: Clock) -> None:
        """`settings` and `connections` are set later, if there are any."""
        self.settings = ServerSettings()
        self.connections: Callable[[], ConnectionFacts] = ConnectionFacts
        self.run_id = secrets.token_hex(20)
        self.started_at_s = clock.wall_ms() // 1000
        self._clock = clock
        self._backend = backend
        self._counters = counters
        self._version = _own_version()  # read from a file now, and not while a client waits
        self._started_s = time.perf_counter()
        self._resident_bytes = 0  # when INFO was last asked for memory
        self._memory_bytes = machine.memory_bytes()
        self._sections: dict[str, Callable[[KeyspaceInfo], Lines]] = {
            "server": self._about_server,
            "clients": self._about_clients,
            "memory": self._about_memory,
            "persistence": self._about_saving,
            "stats": self._about_calls,
            "replication": self._about_replication,
            "cpu": _about_cpu,
            "modules": lambda *_: {},
            "commandstats": self._about_commands,
            "errorstats": self._about_errors,
            "cluster": lambda *_: {"cluster_enabled": 0},
            "keyspace": _about_keyspace,
        }

    def plan(self, words: Sequence[bytes]) -> AnyPlan:
        asked = {word.decode("latin-1").lower() for word in words[1:]} or {"default"}
        names = set(self._sections) & asked
        if asked & _USUAL:
            names |= set(self._sections) - (_MORE if not asked & _ALL else set())
        servers = self._backend.servers if asked & {"servers", *_USUAL} else None

        async def finish(reply: Reply) -> Reply:
            if "memory" in names:
                self._resident_bytes = machine.resident_bytes()
            assert isinstance(reply, list)
            keyspace = KeyspaceInfo(*reply)
            sections = [
                _section(name, about(keyspace))
                for name, about in self._sections.items()
                if name in names
            ]
            if servers is not None:
                sections.append(_section("servers", _about_servers(await servers.facts())))
            return Verbatim("\r\n".join(sections).encode())

        return Plan(DescribeKeyspace(), list, finish=finish)

    def _about_server(self, keyspace: KeyspaceInfo) -> Lines:
        uptime_s = round(time.perf_counter() - self._started_s)
        return {
            "redis_version": SPOKEN_VERSION,
            "redis_git_sha1": "00000000",
            "redis_git_dirty": 0,
            "server_name": "headgate",
            "headgate_version": self._version,
            "redis_mode": "standalone",
            "os": f"{platform.system()} {platform.release()} {platform.machine()}",
            "arch_bits": 64,
            "process_id": os.getpid(),
            "run_id": self.run_id,
            "tcp_port": self.settings.port or self.connections().port,
            "server_time_usec": keyspace.now_ms * 1000,
            "uptime_in_seconds": uptime_s,
            "uptime_in_days": uptime_s // _S_PER_DAY,
            "executable": sys.executable,
            "config_file": self.settings.config_file,
        }

    def _about_clients(self, *_: object) -> Lines:
        waited_for, by_groups = self._backend.waited_for
        return {
            "connected_clients": self.connections().connected_count,
            "cluster_connections": 0,
            "maxclients": self.settings.connections_max,
            "blocked_clients": self._backend.waiter_count,
            "tracking_clients": 0,
            "total_blocking_keys": waited_for,
            "total_blocking_keys_on_nokey": by_groups,
        }

    def _about_memory(self, *_: object) -> Lines:
        used_bytes = self.used_bytes
        return {
            **_size("used_memory", used_bytes),
            **_size("used_memory_rss", self._resident_bytes),
            **_size("used_memory_peak", machine.peak_bytes()),
            "used_memory_dataset": used_bytes,
            **_size("total_system_memory", self._memory_bytes),
            **_size("maxmemory", self.settings.memory_bytes_max),
            "maxmemory_policy": self.settings.memory_policy,
        }

    @property
    def used_bytes(self) -> int:
        return sum(self._backend.memory_bytes().values())

    def _about_saving(self, *_: object) -> Lines:
        lines: Lines = {
            "loading": 0,
            "async_loading": 0,
            "rdb_changes_since_last_save": self._backend.unsaved_count,
        }
        status = status_of(self._backend)
        if status is None:
            return lines | {"aof_enabled": 0}
        result = "ok" if status.rewrite_failure is None else "err"
        has_written = status.failure is None and status.fault is None
        return lines | {
            "rdb_bgsave_in_progress": int(status.is_rewriting),
            "rdb_last_save_time": self.saved_at_s,
            "rdb_last_bgsave_status": result,
            "rdb_saves": status.rewrite_count,
            "aof_enabled": 1,
            "aof_rewrite_in_progress": int(status.is_rewriting),
            "aof_rewrite_scheduled": 0,
            "aof_last_bgrewrite_status": result,
            "aof_last_write_status": "ok" if has_written else "err",
            "aof_rewrites": status.rewrite_count,
            "aof_current_size": status.size_bytes,
        }

    @property
    def saved_at_s(self) -> int:
        """Return the unix time of the last snapshot, or of the start if there was none."""
        status = status_of(self._backend)
        if status is None or status.rewritten_s is None:
            return self.started_at_s
        age_s = asyncio.get_running_loop().time() - status.rewritten_s
        return round(self._clock.wall_ms() / 1000 - age_s)

    def _about_calls(self, *_: object) -> Lines:
        connections = self.connections()
        return {
            "total_connections_received": connections.accepted_count,
            "total_commands_processed": self._counters.call_count,
            "instantaneous_ops_per_sec": self._counters.calls_per_s,
            "total_net_input_bytes": connections.input_bytes,
            "total_net_output_bytes": connections.output_bytes,
            "rejected_connections": connections.rejected_count,
            "evicted_keys": 0,
            "pubsub_channels": 0,
            "pubsub_patterns": 0,
            "slowlog_commands_count": len(self._counters.slow_log),
            "total_error_replies": self._counters.errors.total(),
        }

    def _about_replication(self, *_: object) -> Lines:
        status = status_of(self._backend)
        bucket = None if status is None else status.bucket
        is_standby = bucket is not None and bucket.role is LeaderRole.STANDBY
        return {
            "role": "slave" if is_standby else "master",
            "connected_slaves": 0,
            "master_failover_state": "no-failover",
            "master_replid": self.run_id,
            "master_replid2": "0" * 40,
            "master_repl_offset": 0 if status is None else status.position,
            "second_repl_offset": -1,
            "repl_backlog_active": 0,
        }

    def _about_commands(self, *_: object) -> Lines:
        return {f"cmdstat_{name}": counts for name, counts in self._counters.commands.items()}

    def _about_errors(self, *_: object) -> Lines:
        errors = self._counters.errors.items()
        return {f"errorstat_{code}": f"count={count}" for code, count in errors}


def status_of(backend: Backend) -> JournalStatus | None:
    """Return the status of the journal; None if there is none, or it is not known yet."""
    if backend.journal is None:
        return None
    try:
        return backend.journal.status
    except Unavailable:
        return None


def _size(name: str, size_bytes: int) -> Lines:
    return {name: size_bytes, f"{name}_human": human(size_bytes)}


def _section(name: str, lines: Lines) -> str:
    title = name.upper() if name == "cpu" else name.capitalize()
    return "\r\n".join([f"# {title}", *(f"{k}:{v}" for k, v in lines.items()), ""])


@cache
def _own_version() -> str:
    return version("headgate")


def _about_servers(servers: Sequence[ServerFacts]) -> Lines:
    return {
        f"server{at}": ",".join(f"{name}={value}" for name, value in facts._asdict().items())
        for at, facts in enumerate(servers)
    }


def _about_cpu(*_: object) -> Lines:
    used = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "used_cpu_sys": f"{used.ru_stime:.6f}",
        "used_cpu_user": f"{used.ru_utime:.6f}",
        "used_cpu_sys_children": f"{children.ru_stime:.6f}",
        "used_cpu_user_children": f"{children.ru_utime:.6f}",
    }


def _about_keyspace(keyspace: KeyspaceInfo) -> Lines:
    if not keyspace.stream_count:
        return {}
    expiring_count, average_ms = keyspace.expiring_count, keyspace.average_ttl_ms
    return {"db0": f"keys={keyspace.stream_count},expires={expiring_count},avg_ttl={average_ms}"}
