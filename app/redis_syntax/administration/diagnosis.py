"""SLOWLOG, and the subcommand of LATENCY that programs use."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from headgate.app.auth.grants import Verb
from headgate.app.redis_syntax.administration.slow_log import SlowLog
from headgate.app.redis_syntax.catalog.description import (
    Catalog,
    Description,
    container,
    help_of,
    server_operation,
)
from headgate.app.redis_syntax.command import SmallReply, SubcommandTable
from headgate.app.redis_syntax.help import help_on
from headgate.app.redis_syntax.replies import Reply
from headgate.app.redis_syntax.words import OK, AnyPlan, CommandError, Plan, integer
from headgate.engine.requests.keyspace import GetDefaults

_SLOW_COUNT = 10
_COUNT_ERROR = "ERR count should be greater than or equal to -1"

_SLOWLOG_USAGES = {
    "GET [<count>]": "Return the latest commands that took long; -1: all.",
    "LEN": "Return how many there are.",
    "RESET": "Forget them.",
}
_LATENCY_USAGES = {"LATEST": "Return nothing: no event is sampled."}


class Diagnosis:
    """Answers SLOWLOG and LATENCY LATEST, which exporters read."""

    def __init__(self, slow_log: SlowLog) -> None:
        """Show a log of slow commands."""
        self._slow_log = slow_log

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
                b"LATEST": SmallReply(2, admin, _latest_delays, only_reads=True),
                b"HELP": help_on("LATENCY", _LATENCY_USAGES),
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

        def shape(_: object) -> Reply:
            return [each.reply() for each in self._slow_log.latest(None if count < 0 else count)]

        return Plan(GetDefaults(), shape)

    def _slow_count(self, words: Sequence[bytes]) -> AnyPlan:
        """SLOWLOG LEN."""
        del words
        return Plan(GetDefaults(), lambda _: len(self._slow_log))

    def _forget_slow(self, words: Sequence[bytes]) -> AnyPlan:
        """SLOWLOG RESET."""
        del words

        def shape(_: object) -> Reply:
            self._slow_log.clear()
            return OK

        return Plan(GetDefaults(), shape)


def _latest_delays(words: Sequence[bytes]) -> AnyPlan:
    """LATENCY LATEST: no event is sampled."""
    del words
    return Plan(GetDefaults(), lambda _: [])


_slow_log = partial(Description, group="server", flags="admin loading stale")
_FROM_NODES: Final = "request_policy:all_nodes"

CATALOG: Catalog = {
    "latency": container("for delays", "2.8.13", "server"),
    "latency|latest": server_operation(
        "Return nothing: no event is sampled.",
        "2.8.13",
        tips=f"nondeterministic_output {_FROM_NODES} response_policy:special",
    ),
    "latency|help": help_of("LATENCY", "2.8.13", "server"),
    "slowlog": container("for commands that took long", "2.2.12", "server"),
    "slowlog|get": _slow_log(
        "Return the latest commands that took long.",
        "2.2.12",
        usage="[count:integer]",
        tips=f"{_FROM_NODES} nondeterministic_output",
        complexity="O(N) for N commands that are returned.",
    ),
    "slowlog|len": _slow_log(
        "Return how many commands are in the log.",
        "2.2.12",
        tips=f"{_FROM_NODES} response_policy:agg_sum nondeterministic_output",
    ),
    "slowlog|reset": _slow_log(
        "Empty the log.",
        "2.2.12",
        tips=f"{_FROM_NODES} response_policy:all_succeeded",
        complexity="O(N) for N commands in it.",
    ),
    "slowlog|help": help_of("SLOWLOG", "6.2.0", "server"),
}
