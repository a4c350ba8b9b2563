"""Decisions about the keys of a fair group: who waits, for how long, and who gets how much."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from heapq import nlargest
from itertools import islice
from operator import attrgetter, itemgetter
from typing import NamedTuple

from headgate.engine.decisions import Decision, Decisions
from headgate.engine.entry import MIN_ID, EntryId
from headgate.engine.limits import KEYS_SCANNED_AT_ONCE, KEYS_SCANNED_MAX, LONGEST_WAITS
from headgate.engine.replies import FairKey, GroupKeys, NoisyKey
from headgate.engine.requests.groups import KeyOrder, ListKeys
from headgate.engine.state.ahead import Ahead
from headgate.engine.state.group import Group
from headgate.engine.state.keyspace import Keyspace
from headgate.engine.state.lane import Key, Waiting
from headgate.engine.state.stream import Stream

_LOOKED_AT = 20
"""Keys that are looked at for the noisiest one, and for the longest waits."""

_NOISY_MIN = 100
"""Entries that wait before a key is called noisy."""


def noisy_key(ahead: Ahead | None) -> NoisyKey | None:
    """Return a key that has more than half of what waits, beside others that wait.

    It is looked for among those that have waited the longest.
    """
    if ahead is None or len(ahead) < _NOISY_MIN or ahead.key_count < 2:
        return None
    noisy = max(islice(ahead.waiting(), _LOOKED_AT), key=attrgetter("entry_count"))
    if noisy.entry_count * 2 <= len(ahead):
        return None
    return NoisyKey(noisy.key, noisy.entry_count)


def longest_waits(ahead: Ahead | None, now_ms: int) -> tuple[tuple[Key, int], ...]:
    """Return keys with the longest waits, in milliseconds."""
    if ahead is None:
        return ()
    waits: dict[Key, int] = {}
    for waiting in islice(ahead.waiting(), _LOOKED_AT):
        wait_ms = max(now_ms - waiting.first_id.ms, 0)
        waits[waiting.key] = max(waits.get(waiting.key, 0), wait_ms)
    return tuple(nlargest(LONGEST_WAITS, waits.items(), key=itemgetter(1)))


def list_keys(keyspace: Keyspace, request: ListKeys, now_ms: int) -> Decision[GroupKeys]:
    return _Listing(request).part({}, MIN_ID, 0, keyspace, now_ms)


class _Listing(NamedTuple):
    request: ListKeys

    def part(
        self,
        before: dict[Key, Waiting],
        start: EntryId,
        looked_at: int,
        keyspace: Keyspace,
        now_ms: int,
    ) -> Decision[GroupKeys]:
        """Look at some keys from a place on, and keep those that would be listed so far."""
        group = keyspace.group(self.request.stream, self.request.group)
        stream, ahead = keyspace.stream(self.request.stream), group.ahead
        page = [] if ahead is None else list(islice(ahead.waiting(start), KEYS_SCANNED_AT_ONCE))
        found = dict(before)
        for waiting in page:
            known = found.get(waiting.key)
            found[waiting.key] = waiting if known is None else known.with_lane(waiting)
        first = dict(nlargest(self.request.limit, found.items(), key=self._rank))
        looked_at += len(page)
        if ahead is None or len(page) < KEYS_SCANNED_AT_ONCE or looked_at >= KEYS_SCANNED_MAX:
            shares = {} if ahead is None else ahead.shares.of(keyspace.steady_ms(now_ms))
            return Decision(self._described(first, stream, group, shares, now_ms), [])
        start = page[-1].first_id.next()
        return Decision(GroupKeys([], 0, 0, False), [], partial(self.part, first, start, looked_at))

    def _rank(self, item: tuple[Key, Waiting]) -> tuple[int, int]:
        _, waiting = item
        age = -waiting.first_id.ms
        return (waiting.entry_count, age) if self.request.order is KeyOrder.WAITING else (age, 0)

    def _described(
        self,
        first: dict[Key, Waiting],
        stream: Stream,
        group: Group,
        shares: Mapping[Key, float],
        now_ms: int,
    ) -> GroupKeys:
        ahead, turns = group.ahead, group.pel.turns
        if ahead is None:
            return GroupKeys([], 0, 0, True)
        keys = []
        others = sorted(shares.keys() - first.keys(), key=lambda key: -shares[key])
        for key in [*first, *others[: self.request.limit - len(first)]]:
            waiting = first.get(key)
            pending_count = 0 if turns is None or key is None else turns.pending_count(key)
            keys.append(
                FairKey(
                    key,
                    0 if waiting is None else waiting.entry_count,
                    pending_count,
                    None if waiting is None else waiting.first_id,
                    None if waiting is None else max(now_ms - waiting.first_id.ms, 0),
                    shares.get(key, 0.0),
                    waiting is not None and waiting.is_resting,
                )
            )
        is_complete = not group.formerly_ahead and stream.log.last_id <= group.last_id
        return GroupKeys(keys, ahead.key_count, len(ahead), is_complete)


DECISIONS: Decisions = {ListKeys: list_keys}
