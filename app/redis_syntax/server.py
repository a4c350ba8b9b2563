"""Server: the commands INFO and CONFIG, and the counters that they show."""

from __future__ import annotations

import os
import platform
import resource
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version

from headgate.app.backends.port import Reply, Verbatim
from headgate.app.redis_syntax import keys
from headgate.app.redis_syntax.errors import error_text
from headgate.app.redis_syntax.performer import Performer
from headgate.app.redis_syntax.words import OK, AnyPlan, Plan, wrong_arity
from headgate.engine.errors import StreamError
from headgate.engine.replies import KeyspaceInfo
from headgate.engine.requests.keyspace import DescribeKeyspace, TellTime

SPOKEN_VERSION = "8.10.1"
"""The version of Redis whose stream commands these are."""

_MORE = frozenset({"commandstats"})  # shown only on request

Lines = dict[str, object]


@dataclass
class _CommandCounts:
    """How often a command was run, how long it took, and how often it failed."""

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


class ServerCommands:
    """Counts commands, and replies to INFO and CONFIG."""

    def __init__(self, engine: Performer) -> None:
        """Start with all counters at 0."""
        self._engine = engine
        self._version = version("headgate")  # read from a file now, and not while a client waits
        self._started_s = time.perf_counter()
        self._counts: dict[str, _CommandCounts] = {}
        self._errors: Counter[str] = Counter()
        self._sections: dict[str, Callable[[KeyspaceInfo], Lines]] = {
            "server": self._about_server,
            "clients": self._about_clients,
            "memory": lambda *_: {"used_memory_peak": _peak_bytes()},
            "persistence": self._about_saving,
            "stats": self._about_calls,
            "replication": lambda *_: {"role": "master", "connected_slaves": 0},
            "commandstats": lambda *_: {f"cmdstat_{k}": v for k, v in self._counts.items()},
            "errorstats": lambda *_: {
                f"errorstat_{k}": f"count={v}" for k, v in self._errors.items()
            },
            "cluster": lambda *_: {"cluster_enabled": 0},
            "keyspace": _about_keyspace,
        }

    @contextmanager
    def running(self, command: str) -> Iterator[None]:
        """Count a call of a command, its duration and its outcome."""
        started_s = time.perf_counter()
        try:
            yield
        except StreamError as error:
            self.count(command, time.perf_counter() - started_s, error)
            raise
        self.count(command, time.perf_counter() - started_s)

    def count(
        self, command: str, elapsed_s: float = 0.0, failure: StreamError | None = None
    ) -> None:
        """Count a call that has ended."""
        counts = self._counts.setdefault(command, _CommandCounts())
        counts.calls += 1
        counts.elapsed_us += round(elapsed_s * 1_000_000)
        if failure is not None:
            counts.failed += 1
            self._count_error(failure)

    def reject(self, command: str | None, failure: StreamError) -> None:
        """Count a command that was not run. The name is None if the command is unknown."""
        self._count_error(failure)
        if command is not None:
            self._counts.setdefault(command, _CommandCounts()).rejected += 1

    def info(self, words: Sequence[bytes]) -> AnyPlan:
        """INFO [section ...]."""
        asked = {word.decode("latin-1").lower() for word in words[1:]} or {"default"}
        names = set(self._sections) & asked
        if asked & {"default", "all", "everything"}:
            names |= set(self._sections) - (_MORE if not asked & {"all", "everything"} else set())

        def shape(keyspace: KeyspaceInfo) -> Reply:
            sections = [
                "\r\n".join([f"# {name.capitalize()}", *(f"{k}:{v}" for k, v in lines.items()), ""])
                for name, about in self._sections.items()
                if name in names
                for lines in [about(keyspace)]
            ]
            return Verbatim("\r\n".join(sections).encode())

        return Plan(DescribeKeyspace(), shape)

    def config(self, words: Sequence[bytes]) -> AnyPlan:
        """CONFIG GET, CONFIG SET, CONFIG RESETSTAT."""
        if words[1].upper() != b"RESETSTAT":
            return keys.config(words)
        if len(words) > 2:
            raise wrong_arity("config|resetstat")

        def shape(_: object) -> Reply:
            self._counts.clear()
            self._errors.clear()
            return OK

        return Plan(TellTime(), shape)

    def _count_error(self, error: StreamError) -> None:
        self._errors[error_text(error).partition(" ")[0]] += 1

    def _about_server(self, keyspace: KeyspaceInfo) -> Lines:
        uptime_s = round(time.perf_counter() - self._started_s)
        return {
            "redis_version": SPOKEN_VERSION,
            "server_name": "headgate",
            "headgate_version": self._version,
            "redis_mode": "standalone",
            "os": f"{platform.system()} {platform.release()} {platform.machine()}",
            "arch_bits": 64,
            "process_id": os.getpid(),
            "server_time_usec": keyspace.now_ms * 1000,
            "uptime_in_seconds": uptime_s,
            "uptime_in_days": uptime_s // 86_400,
        }

    def _about_clients(self, *_: object) -> Lines:
        waited_for, by_groups = self._engine.waited_for
        return {
            "blocked_clients": self._engine.waiter_count,
            "total_blocking_keys": waited_for,
            "total_blocking_keys_on_nokey": by_groups,
        }

    def _about_saving(self, *_: object) -> Lines:
        unsaved = self._engine.unsaved_count
        return {"loading": 0, "rdb_changes_since_last_save": unsaved}

    def _about_calls(self, *_: object) -> Lines:
        return {
            "total_commands_processed": sum(command.calls for command in self._counts.values()),
            "total_error_replies": self._errors.total(),
        }


def _about_keyspace(keyspace: KeyspaceInfo) -> Lines:
    if not keyspace.stream_count:
        return {}
    expiring_count, average_ms = keyspace.expiring_count, keyspace.average_ttl_ms
    return {"db0": f"keys={keyspace.stream_count},expires={expiring_count},avg_ttl={average_ms}"}


def _peak_bytes() -> int:
    """Return the greatest memory size that this process has had, in bytes."""
    unit = 1 if platform.system() == "Darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
