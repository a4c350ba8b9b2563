"""A console: commands as one would type them, and their replies. Time passes when told to.

`""` is an empty word, and `%20` a byte that cannot be typed. `WAIT n` lets n ms pass, and
`command | name name` keeps these fields of the reply. Nodes have three entries; it is 1000 ms.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote_to_bytes

from headgate.app.backends.embedded import EmbeddedBackend
from headgate.app.channels.channels import Channels
from headgate.app.redis_syntax.command import error_text
from headgate.app.redis_syntax.replies import NULL_ARRAY, Reply
from headgate.app.redis_syntax.runs import CommandRunner
from headgate.engine.clock import Clock
from headgate.engine.engine import Engine
from headgate.engine.errors import StreamError
from headgate.engine.journal.storage import MemoryStorage
from headgate.engine.state.defaults import Defaults
from headgate.engine.state.entries.packed import NodeLimits
from tests.virtual_time import ManualClock

INVALID_ID = "ERR Invalid stream ID specified as stream command argument"
NOT_AN_INTEGER = "ERR value is not an integer or out of range"
SYNTAX = "ERR syntax error"
I64_MAX = 2**63 - 1
MAX_ID_TEXT = f"{2**64 - 1}-{2**64 - 1}"

FIVE = [f"XADD s {n} f v{n}" for n in range(1, 6)]
GROUP = "XGROUP CREATE s g 0"
READ = "XREADGROUP GROUP g c STREAMS s >"
TWO = [*FIVE[:2], GROUP, READ]
ALL_READ = [*FIVE, GROUP, READ]
LEFT = "XRANGE s - +"
PENDING = "XPENDING s g - + 9"

Case = tuple[str, Sequence[str], Any]
"""The subject, the commands, and the reply of the last one or the text of its error."""


class Console:
    """An engine that is typed to."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock = ManualClock(1_000)
        self.engine = Engine(MemoryStorage(), clock=clock or self.clock)
        self.engine.keyspace.defaults = Defaults(node_limits=NodeLimits(3, 4096))
        self._runner = CommandRunner(EmbeddedBackend(self.engine))
        self._runner.server.attach(channels=Channels())

    async def say(self, line: str) -> Any:
        """Run a command; returns its reply with text for bytes, or the text of its error."""
        command, _, names = line.partition(" | ")
        words = typed(command)
        if words[0] == b"WAIT":
            self.clock.now_ms += int(words[1])
            return None
        try:
            reply = _shown(await self._runner.run(words))
        except StreamError as error:
            return Refusal(error_text(error))
        return _picked(reply, names.split()) if names else reply

    async def say_at_once(self, *lines: str) -> list[Any]:
        """Run commands as one transaction (MULTI, EXEC)."""
        replies = await self._runner.run_all([typed(line) for line in lines])
        return [
            Refusal(error_text(reply)) if isinstance(reply, StreamError) else _shown(reply)
            for reply in replies
        ]


class Refusal(str):
    """The text of an error."""

    __slots__ = ()


async def reply_of(lines: Sequence[str]) -> Any:
    """Type commands; returns the reply of the last. Those before it must not fail."""
    console = Console()
    *before, last = lines
    for line in before:
        reply = await console.say(line)
        assert not isinstance(reply, Refusal), f"{line}: {reply}"
    return await console.say(last)


def typed(command: str) -> list[bytes]:
    """Return the words of a command."""
    return [b"" if word == '""' else unquote_to_bytes(word) for word in command.split()]


def entry(number: int) -> list[object]:
    """Return the part of a reply for an entry of `FIVE`."""
    return [f"{number}-0", ["f", f"v{number}"]]


def entries(*numbers: int) -> list[list[object]]:
    return [entry(number) for number in numbers]


def claimed(number: int, idle_ms: int, count: int) -> list[object]:
    """Return the part of a claiming read's reply for an entry of `FIVE`."""
    return [*entry(number), idle_ms, count]


def _shown(reply: Reply) -> Any:
    if isinstance(reply, bytes):
        return reply.decode(errors="backslashreplace")
    if isinstance(reply, Sequence) and not isinstance(reply, str):
        return [_shown(item) for item in reply]
    if reply is None or reply is NULL_ARRAY:
        return None
    return reply if isinstance(reply, int) else str(reply)


def _picked(reply: Any, names: Sequence[str]) -> Any:
    """Return these fields of a flat array; of the first one, if there are many."""
    flat = reply[0] if isinstance(reply[0], list) else reply
    values = dict(zip(flat[0::2], flat[1::2], strict=True))
    return [values[name] for name in names]
