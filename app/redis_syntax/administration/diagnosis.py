"""SLOWLOG, and the subcommand of LATENCY that programs use."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from headgate.app.auth.grants import Verb
from headgate.app.redis_syntax.command import SmallReply, SubcommandTable
from headgate.app.redis_syntax.replies import Reply
from headgate.app.redis_syntax.words import OK, AnyPlan, CommandError, Plan, number, telling
from headgate.engine.clock import Clock
from headgate.engine.requests.keyspace import GetDefaults

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
                b"GET": SmallReply(-2, admin, self._slow_commands, only_reads=True),
                b"LEN": SmallReply(2, admin, telling(log.__len__), only_reads=True),
                b"RESET": SmallReply(2, admin, telling(self._forget)),
            },
            b"LATENCY": {b"LATEST": SmallReply(2, admin, telling(list), only_reads=True)},
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
