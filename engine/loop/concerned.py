"""Concerned: whom the name of a stream concerns, of those who have a pattern.

A table by name has the answers, so what happens to a stream costs one look-up, however many
patterns there are. For a name that is not in the table only those are asked whose literal prefix
the name has, and in parts, because a glob may take long.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

from headgate.engine.decisions.name_ranges import NameRange, beginning_with, shown_by
from headgate.engine.limits import CONCERNED_MAX, CONCERNED_NAMES_MAX
from headgate.engine.loop.waiters import Waiters
from headgate.engine.patterns import literal_prefix, matcher
from headgate.engine.requests.keyspace import NameFilter, is_shown
from headgate.engine.threads import this_turn


class NamePattern:
    def __init__(self, pattern: bytes, only: NameFilter | None) -> None:
        """Match names by a glob, of those that `only` shows; None: of all."""
        self.pattern = pattern
        self.only = only
        self.prefix = literal_prefix(pattern)
        self.matches = matcher(pattern)
        own = beginning_with(self.prefix)
        within = (names.within(own) for names in shown_by(only))
        self.ranges: list[NameRange] = [names for names in within if names is not None]

    def concerns(self, name: bytes) -> bool:
        return is_shown(name, self.only) and self.matches(name)


P = TypeVar("P", bound=NamePattern)


class WorkInTurns:
    """Finds out whom names concern, in turns of the event loop."""

    def __init__(self, settle: Callable[[], Iterator[None]], waiters: Waiters) -> None:
        """`settle` returns the work, with places where a turn may end."""
        self._settle = settle
        self._waiters = waiters
        self._work: Iterator[None] | None = None
        self._has_ended = asyncio.Event()

    def begin(self) -> None:
        """Begin in another turn of the event loop, unless the work is under way."""
        if self._work is None:
            self._has_ended.clear()
            self._work = self._settle()
            asyncio.get_running_loop().call_soon(self._take_turn)

    async def ended(self) -> None:
        await self._has_ended.wait()

    def _take_turn(self) -> None:
        assert self._work is not None
        turn = this_turn()
        for _ in self._work:
            if turn.is_over:
                turn.call_later(self._take_turn)
                break
        else:
            self._work = None
            self._has_ended.set()
        self._waiters.serve()


class Concerned(Generic[P]):
    def __init__(self) -> None:
        self._by_prefix: dict[bytes, list[P]] = {}
        self._lengths: list[int] = []  # of the prefixes
        self._table: dict[bytes, list[P]] = {}  # by name; no others are concerned

    def add(self, each: P) -> None:
        self._by_prefix.setdefault(each.prefix, []).append(each)
        self._have_changed()

    def remove(self, each: P) -> None:
        alike = self._by_prefix[each.prefix]
        alike.remove(each)
        if not alike:
            del self._by_prefix[each.prefix]
        self._have_changed()

    def known(self, name: bytes) -> Sequence[P] | None:
        """Return whom a name concerns; None: that is not known yet, so `ask`."""
        return self._table.get(name)

    def forget(self, name: bytes) -> None:
        self._table.pop(name, None)

    def ask(self, name: bytes, concerned: list[P]) -> Iterator[None]:
        """Find out whom a name concerns; yield where a turn may end."""
        table = self._table
        for each in self._candidates(name):
            if each.concerns(name):
                concerned.append(each)
            yield
        if len(concerned) <= CONCERNED_MAX and table is self._table:
            if len(table) >= CONCERNED_NAMES_MAX:
                table = self._table = {}
            table[name] = concerned

    def _candidates(self, name: bytes) -> list[P]:
        candidates: list[P] = []
        for length in self._lengths:
            if length > len(name):
                break
            candidates += self._by_prefix.get(name[:length], ())
        return candidates

    def _have_changed(self) -> None:
        self._lengths = sorted({len(prefix) for prefix in self._by_prefix})
        self._table = {}
