"""What a principal uses at all processes of a gateway counts as one.

Each process has a `Usage` of each principal that it serves, and decides by it alone, at once. Every
`SHARE_INTERVAL_S` it announces what was taken since, and how many connections, blocked reads and
subscriptions there are. The others take the same from their own buckets, and count it beside their
own. So a rate holds on average: a principal that comes to N processes at one moment may get up to N
times what one second allows, and then waits until all of that is paid.
"""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from headgate.app.auth.grants import UsageLimits
from headgate.app.auth.limits.usage import Amounts, Usages
from headgate.app.runtime import periodic
from headgate.app.runtime.siblings import SHARE_INTERVAL_S, Siblings

TOPIC: Final = "usage"

AT_ONCE_MAX: Final = 1_000
"""Principals of one announcement; the others come with the next."""

_NAMES = tuple(UsageLimits.model_fields)


class _Report(msgspec.Struct, frozen=True, array_like=True):
    owner: str
    limits: tuple[int | None, ...]
    spent: Amounts
    in_use: Amounts


class SharedUsage:
    def __init__(self, usages: Usages, siblings: Siblings) -> None:
        self._usages = usages
        self._siblings = siblings
        self._by_sibling: dict[int, dict[str, Amounts]] = {}  # what is in use, if anything is
        self._changed: set[str] = set()
        usages.watch(self._changed)
        siblings.on_announcement(TOPIC, self._take)
        siblings.on_departure(self._forget)
        siblings.on_arrival(self._announce_held)

    async def run(self) -> None:
        await periodic.repeat("usage shared", self._share)

    async def _share(self) -> None:
        while self._changed:
            await self._siblings.announce(TOPIC, self._reports())
            await asyncio.sleep(0)  # there may be many more
        await asyncio.sleep(SHARE_INTERVAL_S)

    def _reports(self) -> bytes:
        reports: list[_Report] = []
        while self._changed and len(reports) < AT_ONCE_MAX:
            owner = self._changed.pop()
            usage = self._usages.kept(owner)
            if usage is None:
                continue
            limits = tuple(getattr(usage.limits, name) for name in _NAMES)
            reports.append(_Report(owner, limits, usage.take_spent(), usage.in_use()))
        return _encode(reports)

    def _take(self, sender: int, body: bytes) -> None:
        held = self._by_sibling.setdefault(sender, {})
        for report in _decode(body):
            limits = UsageLimits(**dict(zip(_NAMES, report.limits, strict=True)))
            before = held.pop(report.owner, _NOTHING)
            if any(report.in_use):
                held[report.owner] = report.in_use
            self._usages.of_owner(report.owner, limits).use_elsewhere(
                report.spent, _difference(report.in_use, before)
            )

    def _forget(self, sibling: int) -> None:
        for owner, in_use in self._by_sibling.pop(sibling, {}).items():
            usage = self._usages.kept(owner)
            if usage is not None:
                usage.use_elsewhere(_NOTHING, _difference(_NOTHING, in_use))

    def _announce_held(self) -> None:
        self._changed.update(self._usages.holders())


_NOTHING: Amounts = (0, 0, 0)


def _difference(after: Amounts, before: Amounts) -> Amounts:
    return after[0] - before[0], after[1] - before[1], after[2] - before[2]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[_Report]).decode
