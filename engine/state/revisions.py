"""Revisions: tell whether a stream has changed since somebody looked (WATCH).

The changes that count are those that Redis's WATCH notices: entries come or go, the stream comes or
goes, gets another name, or its expiry changes. What happens in its groups does not count.

Appends have to be fast, so they note nothing: the newest entry is a part of a revision, and only a
change that is noted can remove that entry again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from headgate.engine.state.stream import Stream

GONE_MAX = 10_000
"""Names of streams that are remembered after the streams are gone."""


class Revisions:
    """Numbers the changes. No number comes twice within a run."""

    def __init__(self) -> None:
        self._run: bytes | None = b""  # None: not asked for yet
        self._name_run: Callable[[], str] = str
        self._latest = 0
        self._gone: dict[bytes, int] = {}  # when streams went, the earliest first
        self._forgotten = 0  # the latest of the streams that went and are not remembered

    def begin(self, name_run: Callable[[], str]) -> None:
        """Let revisions from here on be equal to none from before.

        `name_run` names this life of the state among all on this machine since it was started: who
        holds a revision runs on it as well. It is called when somebody asks for a revision.
        """
        self._run, self._name_run = None, name_run

    def next(self) -> int:
        self._latest += 1
        return self._latest

    def note_gone(self, name: bytes) -> None:
        self._gone.pop(name, None)
        self._gone[name] = self.next()
        if len(self._gone) > GONE_MAX:
            self._forgotten = self._gone.pop(next(iter(self._gone)))

    def note_all_gone(self, names: Collection[bytes]) -> None:
        if len(names) > GONE_MAX:
            self._gone.clear()
            self._forgotten = self.next()
            return
        for name in names:
            self.note_gone(name)

    def of(self, name: bytes, stream: Stream | None) -> bytes:
        """Return the revision of a stream, or that of its absence.

        A stream that is absent may get another revision without a change, but only after many
        others have gone. A revision that stays equal always means that nothing has changed.
        """
        if self._run is None:
            self._run = self._name_run().encode()
        if stream is None:
            return b"%b/%d" % (self._run, self._gone.get(name, self._forgotten))
        newest = stream.log.last_id
        return b"%b/%d/%d-%d" % (self._run, stream.revision, *newest)
