"""Observer: measures streams and groups now and then, the first ones by name.

There is a bound for both together. A stream that was measured stays so, whatever streams with names
before its own are created later: nobody hides a stream from alerts by creating others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from headgate.app.backends.port import Backend
from headgate.app.measuring.sample import ObservedStreams
from headgate.app.runtime import periodic
from headgate.engine.clock import Clock
from headgate.engine.errors import StreamError
from headgate.engine.replies import ObservedStream
from headgate.engine.requests.names import NameFilter
from headgate.engine.requests.streams import Observe

_VALID_FOR = 3
"""An observation holds until so many more should have been made."""


class ObserverOptions(NamedTuple):
    """The choice of streams to observe, and the pause between two looks."""

    patterns: Sequence[str] = ("*",)  # names, and beginnings of names with `*`
    limit: int = 200  # streams and groups together
    every_s: float = 1.0


class Observer:
    """Measures streams and groups of a backend. Of several processes only one does so."""

    def __init__(self, backend: Backend, options: ObserverOptions, clock: Clock) -> None:
        """Get ready; nothing is measured until it is wanted."""
        self._backend = backend
        self._request = Observe(options.limit, only=filter_of(options.patterns))
        self._every_s = options.every_s
        self._valid_ms = int(_VALID_FOR * options.every_s * 1000)
        self._clock = clock
        self._is_wanted = asyncio.Event()
        self._news: ObservedStreams | None = None
        self._names: frozenset[bytes] = frozenset()  # of the streams last measured

    def want(self, *, is_wanted: bool) -> None:
        """Begin or stop to measure."""
        if is_wanted:
            self._is_wanted.set()
        else:
            self._is_wanted.clear()
            self._news = None

    def take(self) -> ObservedStreams | None:
        """Return the last measurement; None if it was taken before."""
        news, self._news = self._news, None
        return news

    async def run(self) -> None:
        """Measure until cancelled."""
        if self._request.limit:
            await periodic.repeat("streams observed", self._observe_when_wanted)

    async def _observe_when_wanted(self) -> None:
        await self._is_wanted.wait()
        with suppress(StreamError):  # the next time is not far
            await self._observe()
        await asyncio.sleep(self._every_s)

    async def _observe(self) -> None:
        first, left_out = await self._backend.perform(self._request)
        streams, count = first, len(first) + left_out
        if left_out or any(stream.groups_left_out for stream in first):
            known = Observe(self._request.limit, only=NameFilter(self._names))
            streams = (await self._backend.perform(known)).streams
            streams += [stream for stream in first if stream.name not in self._names]
        streams = self._within_bound(streams)
        self._names = frozenset(stream.name for stream in streams)
        if self._is_wanted.is_set():
            self._news = ObservedStreams(
                self._clock.monotonic_ms(),
                self._valid_ms,
                streams,
                count - len(streams),
                sum(stream.groups_left_out for stream in streams),
            )

    def _within_bound(self, streams: Sequence[ObservedStream]) -> list[ObservedStream]:
        room, taken = self._request.limit, list[ObservedStream]()
        for stream in streams:
            room -= 1 + len(stream.groups)
            if room < 0:
                break
            taken.append(stream)
        return taken


def filter_of(patterns: Sequence[str]) -> NameFilter:
    """Return the filter of names that patterns match."""
    names = frozenset(each.encode() for each in patterns if not each.endswith("*"))
    prefixes = tuple(each[:-1].encode() for each in patterns if each.endswith("*"))
    return NameFilter(names, prefixes)
