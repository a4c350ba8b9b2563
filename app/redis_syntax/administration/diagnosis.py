"""SLOWLOG, LATENCY, MEMORY: what those ask for who look for what is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from headgate.app.auth.grants import Verb
from headgate.app.backends.port import Backend
from headgate.app.redis_syntax.administration.counters import CommandCounts, Counters
from headgate.app.redis_syntax.administration.information import Information
from headgate.app.redis_syntax.command import SmallReply, SubcommandTable
from headgate.app.redis_syntax.help import help_on
from headgate.app.redis_syntax.replies import Pairs, Reply, Verbatim
from headgate.app.redis_syntax.words import OK, AnyPlan, CommandError, Plan, integer, shown
from headgate.app.runtime import machine
from headgate.engine.requests.keyspace import GetDefaults

_SLOW_COUNT = 10
_COUNT_ERROR = "ERR count should be greater than or equal to -1"
_LATENCY_TEXT = b"Delays are not sampled by event. See /metrics and LATENCY HISTOGRAM.\n"
_MEMORY_TEXT = b"Nothing is known to be wrong. See INFO memory and /metrics.\n"
_ALLOCATOR_TEXT = b"The allocator keeps no figures.\n"

_SLOWLOG_USAGES = {
    "GET [<count>]": "Return the latest commands that took long; -1: all.",
    "LEN": "Return how many there are.",
    "RESET": "Forget them.",
}
_LATENCY_USAGES = {
    "DOCTOR": "Say where delays are measured.",
    "GRAPH <event>": "Fails: no event is sampled.",
    "HISTOGRAM [<command> ...]": "Return how long commands took.",
    "HISTORY <event>": "Return nothing: no event is sampled.",
    "LATEST": "Return nothing: no event is sampled.",
    "RESET [<event> ...]": "Return 0: no event is sampled.",
}
_MEMORY_USAGES = {
    "DOCTOR": "Say what is wrong with the memory.",
    "MALLOC-STATS": "Say that the allocator keeps no figures.",
    "PURGE": "Free what can be freed.",
    "STATS": "Return what takes memory.",
    "USAGE <key> [SAMPLES <count>]": "Return how much memory a stream takes.",
}


def _admin(arity: int, reply: Reply) -> SmallReply:
    """Return a command that says the same to every operator."""
    return SmallReply(
        arity, {Verb.ADMIN}, lambda _: Plan(GetDefaults(), lambda _: reply), only_reads=True
    )


class Diagnosis:
    """Answers SLOWLOG, LATENCY and MEMORY."""

    def __init__(self, backend: Backend, counters: Counters, information: Information) -> None:
        """Show what is known of a backend and of commands."""
        self._backend = backend
        self._counters = counters
        self._information = information

    @property
    def tables(self) -> SubcommandTable:
        """Return the subcommands of each."""
        admin = {Verb.ADMIN}
        return {
            b"SLOWLOG": {
                b"GET": SmallReply(-2, admin, self._slow_commands, only_reads=True),
                b"LEN": SmallReply(2, admin, self._slow_count, only_reads=True),
                b"RESET": SmallReply(2, admin, self._forget_slow),
                b"HELP": help_on("SLOWLOG", _SLOWLOG_USAGES),
            },
            b"LATENCY": {
                b"DOCTOR": _admin(2, Verbatim(_LATENCY_TEXT)),
                b"GRAPH": SmallReply(3, admin, _no_samples, only_reads=True),
                b"HISTOGRAM": SmallReply(-2, admin, self._histogram, only_reads=True),
                b"HISTORY": _admin(3, []),
                b"LATEST": _admin(2, []),
                b"RESET": _admin(-2, 0),
                b"HELP": help_on("LATENCY", _LATENCY_USAGES),
            },
            b"MEMORY": {
                b"DOCTOR": _admin(2, Verbatim(_MEMORY_TEXT)),
                b"MALLOC-STATS": _admin(2, Verbatim(_ALLOCATOR_TEXT)),
                b"PURGE": _admin(2, OK),  # memory is freed as it goes
                b"STATS": SmallReply(2, admin, self._memory, only_reads=True),
                b"HELP": help_on("MEMORY", _MEMORY_USAGES),
            },
        }

    def _slow_commands(self, words: Sequence[bytes]) -> AnyPlan:
        """SLOWLOG GET [count]."""
        if len(words) > 3:
            text = "unknown subcommand or wrong number of arguments for 'GET'. Try SLOWLOG HELP."
            raise CommandError(f"ERR {text}")
        count = integer(words[2], _COUNT_ERROR) if len(words) == 3 else _SLOW_COUNT
        if count < -1:
            raise CommandError(_COUNT_ERROR)
        log = self._counters.slow_log

        def shape(_: object) -> Reply:
            return [each.reply() for each in log.latest(None if count < 0 else count)]

        return Plan(GetDefaults(), shape)

    def _slow_count(self, words: Sequence[bytes]) -> AnyPlan:
        """SLOWLOG LEN."""
        del words
        return Plan(GetDefaults(), lambda _: len(self._counters.slow_log))

    def _forget_slow(self, words: Sequence[bytes]) -> AnyPlan:
        """SLOWLOG RESET."""
        del words

        def shape(_: object) -> Reply:
            self._counters.slow_log.clear()
            return OK

        return Plan(GetDefaults(), shape)

    def _histogram(self, words: Sequence[bytes]) -> AnyPlan:
        """LATENCY HISTOGRAM [command ...]."""
        commands = self._counters.commands
        asked = [word.decode("latin-1").lower() for word in words[2:]]

        def shape(_: object) -> Reply:
            names = [name for name in asked or commands if name in commands]
            parts = ((name.encode(), _durations(commands[name])) for name in names)
            return Pairs(part for pair in parts for part in pair)

        return Plan(GetDefaults(), shape)

    def _memory(self, words: Sequence[bytes]) -> AnyPlan:
        """MEMORY STATS."""
        del words

        async def finish(_: Reply) -> Reply:
            used_bytes = self._information.used_bytes
            facts = {
                "peak.allocated": machine.peak_bytes(),
                "total.allocated": machine.resident_bytes(),
                "dataset.bytes": used_bytes,
                **{
                    f"streams.{kind}": size_bytes
                    for kind, size_bytes in self._backend.memory_bytes().items()
                },
            }
            return Pairs(part for name, size in facts.items() for part in (name.encode(), size))

        return Plan(GetDefaults(), lambda _: None, finish=finish)


def _durations(counts: CommandCounts) -> Reply:
    """Return how many calls took at most so many microseconds, powers of two."""
    logarithms = sorted(counts.durations)
    sums = accumulate(counts.durations[each] for each in logarithms)
    pairs = zip(logarithms, sums, strict=True)
    buckets = Pairs(part for logarithm, total in pairs for part in (1 << logarithm, total))
    return Pairs([b"calls", counts.calls, b"histogram_usec", buckets])


def _no_samples(words: Sequence[bytes]) -> AnyPlan:
    """LATENCY GRAPH event."""
    raise CommandError(f"ERR No samples available for event '{shown(words[2])}'")
