"""Queued commands: what stands between MULTI and EXEC."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headgate.app.redis_syntax.runs import check_length
from headgate.app.redis_syntax.words import CommandError
from headgate.app.resp.parser import Words

WORD_BYTES = 60
"""Memory of a word besides its bytes, about; a command takes as much as two words."""

_LISTING = [b"CLIENT", b"LIST"]
_LISTINGS_MAX = 4  # each has a line of all connections


def size_of(commands: Iterable[Sequence[bytes]]) -> int:
    """Return how many bytes commands take, about."""
    return sum(sum(map(len, words)) + WORD_BYTES * (len(words) + 2) for words in commands)


class QueuedCommands:
    """The commands between MULTI and EXEC."""

    def __init__(self) -> None:
        """Begin with none."""
        self.commands: list[Words] = []
        self.about_streams: list[Words] = []  # those of them that are not about the connection
        self.is_broken = False  # a command could not be queued: nothing of it will be run
        self.size_bytes = 0  # what they take, about
        self._word_count = self._listing_count = 0

    def queue(self, words: Words, *, is_own: bool) -> None:
        """Add a command that was checked.

        Raises:
            CommandError: there are too many.
        """
        if self.is_broken:
            return
        check_length(len(self.commands) + 1, self._word_count + len(words))
        self._listing_count += is_own and [each.upper() for each in words[:2]] == _LISTING
        if self._listing_count > _LISTINGS_MAX:
            raise CommandError(f"ERR a transaction has CLIENT LIST at most {_LISTINGS_MAX} times")
        self._word_count += len(words)
        self.size_bytes += size_of([words])
        self.commands.append(words)
        if not is_own:
            self.about_streams.append(words)

    def break_off(self) -> None:
        """Let go of all commands, as EXEC will run none of them."""
        self.is_broken = True
        self.commands, self.about_streams = [], []
        self._word_count = self.size_bytes = 0
