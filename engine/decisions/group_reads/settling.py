"""Settling: entries that nobody gets any more leave a group.

They failed too often, or are expired.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import islice

from headgate.engine.commands import Command, EntriesAcked, EntriesExpired
from headgate.engine.config import GroupPolicy
from headgate.engine.decisions import Decision, Unclaimable
from headgate.engine.decisions.entries import add
from headgate.engine.entry import Draft, Entry, EntryId, Fields, is_storable
from headgate.engine.errors import StreamError
from headgate.engine.limits import (
    BLOCK_BYTES_MAX,
    COUNT_MAX,
    DEAD_LETTERS_AT_ONCE_MAX,
    DEAD_SCAN_MAX,
    EXPIRED_AT_ONCE_MAX,
)
from headgate.engine.origin import Origin, origins
from headgate.engine.requests.deliveries import Nack, NackMode
from headgate.engine.requests.entries import Add
from headgate.engine.room import ReadRoom
from headgate.engine.state.group import Group
from headgate.engine.state.keyspace import Keyspace
from headgate.engine.state.pending import PendingEntry
from headgate.engine.state.stream import Stream


def counts_of(keyspace: Keyspace, request: Nack) -> dict[EntryId, int]:
    """Return how often entries were delivered before a nack gives them the greatest count."""
    if request.mode is not NackMode.FATAL and request.retry_count is None:
        return {}
    by_id = keyspace.group(request.stream, request.group).pel.by_id
    return {each: by_id[each].delivery_count for each in request.ids if each in by_id}


def settle(
    keyspace: Keyspace,
    stream: bytes,
    group: bytes,
    claim_idle_ms: int | None,
    now_ms: int,
    *,
    released: Sequence[EntryId] | None = None,
    counts: Mapping[EntryId, int] | None = None,
) -> Decision[int]:
    """Decide to settle entries that nobody gets any more: they failed too often, or are expired.

    Those that failed too often move to the dead letter stream: they stop being pending and are
    appended there in one step. So do expired ones if the policy says so. One decision moves only so
    many that no read waits long; the reply is how many are settled. An entry that has been a dead
    letter of this group before, or has no room for the fields of its origin, cannot become one: it
    would circulate and grow. If it failed too often, it stays pending, and can be claimed by its
    id.

    A delivery fails once it is idle for `claim_idle_ms` or the policy's time, whichever is shorter;
    None: only the policy counts. `released`: look only at these entries, just given back; None:
    look at the longest idle. `counts`: of entries that were given back as fatal, how often they
    were delivered.
    """
    group_state, stream_state = keyspace.group(stream, group), keyspace.stream(stream)
    policy = group_state.policy.on(stream)
    steady_ms = keyspace.steady_ms(now_ms)
    deadlines = stream_state.deadlines
    if policy.dead_letter_stream is None and not (deadlines and deadlines.is_any_over(steady_ms)):
        return Decision(0, [])
    idle_ms = min(
        COUNT_MAX if policy.claim_idle_ms is None else policy.claim_idle_ms,
        COUNT_MAX if claim_idle_ms is None else claim_idle_ms,
    )
    search = Search(stream_state, group_state, policy, steady_ms)
    search.dead.counts = counts or {}
    if released is None:
        search.look_at_idle(idle_ms)
    else:
        search.look_at(released)
    return settled(keyspace, search, now_ms)


def settled(keyspace: Keyspace, search: Search, now_ms: int) -> Decision[int]:
    names, dead = (search.stream.name, search.group.name), search.dead
    unclaimable = [Unclaimable(*names, search.stuck)] if search.stuck else []
    commands: list[Command] = []
    if search.expired:
        commands.append(EntriesExpired(*names, search.expired))
    if dead.drafts and search.policy.dead_letter_stream is not None:
        with suppress(StreamError):  # the ids are exhausted, or a limit is reached: all stay
            adding = Add(search.policy.dead_letter_stream, dead.drafts)
            appended = add(keyspace, adding, now_ms, has_schema=False)
            commands += appended.commands
            commands.append(EntriesAcked(*names, dead.ids, are_dead_letters=True))
            return Decision(len(dead.ids) + len(search.expired), commands, None, unclaimable)
    return Decision(len(search.expired), commands, None, unclaimable)


class Search:
    def __init__(self, stream: Stream, group: Group, policy: GroupPolicy, steady_ms: int) -> None:
        self.stream = stream
        self.group = group
        self.policy = policy
        self.dead = _DeadLetters(stream, group)
        self.expired: list[EntryId] = []
        self.stuck: list[EntryId] = []  # they failed too often, and cannot become dead letters
        self._deadlines = {} if stream.deadlines is None else stream.deadlines.by_id
        self._steady_ms = steady_ms

    def look_at_idle(self, idle_ms: int) -> None:
        pel = self.group.pel
        ready = () if pel.turns is None or not self._deadlines else pel.turns.ready()
        for entry_id in list(islice(ready, EXPIRED_AT_ONCE_MAX)):
            if self._is_full or not self.take(pel.by_id[entry_id]):
                return
        for pending in islice(pel.longest_idle_first(self._steady_ms), DEAD_SCAN_MAX):
            if self._is_full or not pending.is_claimable(self._steady_ms, idle_ms):
                return
            if not self.take(pending):
                return

    def look_at(self, released: Sequence[EntryId]) -> None:
        """Look at entries just given back; those without room are found with the longest idle."""
        for entry_id in dict.fromkeys(released):
            pending = self.group.pel.by_id.get(entry_id)
            if pending is None or pending.owner is not None:
                continue
            if not self.take(pending):
                return

    def take(self, pending: PendingEntry) -> bool:
        times = self._deadlines.get(pending.id)
        is_over = times is not None and times.is_over(self._steady_ms)
        is_spent = self.policy.is_spent(pending.delivery_count)
        is_spent = is_spent and pending.is_claimable(self._steady_ms, 0)
        becomes_dead = self.policy.dead_letter_stream is not None
        if becomes_dead and (is_spent or (is_over and self.policy.on_expiry)):
            became = self.dead.take(pending, is_expired=is_over and not is_spent)
            if became is None:
                return False
            if not became:
                (self.expired if is_over else self.stuck).append(pending.id)
        elif is_over:
            self.expired.append(pending.id)
        return True

    @property
    def _is_full(self) -> bool:
        looked_at = len(self.dead.ids) + len(self.stuck)
        return looked_at >= DEAD_LETTERS_AT_ONCE_MAX or len(self.expired) >= EXPIRED_AT_ONCE_MAX


class _DeadLetters:
    def __init__(self, stream: Stream, group: Group) -> None:
        self.drafts: list[Draft] = []
        self.ids: list[EntryId] = []  # of the entries that they are made of
        self.counts: Mapping[EntryId, int] = {}  # of deliveries, before they became the greatest
        self._stream = stream
        self._group = group
        self._room = ReadRoom(BLOCK_BYTES_MAX)
        self._is_untouched = True

    def take(self, pending: PendingEntry, *, is_expired: bool) -> bool | None:
        """Take in a pending entry; tells whether it becomes one, or None if there is no room.

        It cannot if it is gone from the stream, was one before, or would have too many fields. The
        first one has room.
        """
        entry = self._stream.log.get(pending.id)
        fields = () if entry is None else entry.fields
        if not self._room.take(fields, is_first=self._is_untouched):
            return None
        self._is_untouched = False
        if entry is None or _was_dead_before(fields, self._stream.name, self._group.name):
            return False
        count = pending.delivery_count
        if count == COUNT_MAX:  # of a nack: how often it was delivered is what helps
            count = self.counts.get(pending.id, count)
        names = self._stream.name, self._group
        fields = _dead_letter_fields(*names, pending, entry, count, is_expired=is_expired)
        if not is_storable(fields):
            return False
        self.ids.append(pending.id)
        self.drafts.append(Draft(None, fields))
        return True


def _was_dead_before(fields: Fields, stream: bytes, group: bytes) -> bool:
    """Tell whether an entry was a dead letter of this group before, and came back.

    This happens if the dead letter stream has a group whose dead letters go to the first stream.
    """
    return any(origin.is_group(stream, group) for _, origin in origins(fields))


def _dead_letter_fields(
    stream: bytes,
    group: Group,
    pending: PendingEntry,
    entry: Entry,
    count: int,
    *,
    is_expired: bool,
) -> Fields:
    is_fatal = pending.delivery_count == COUNT_MAX
    deliveries = b"" if count == COUNT_MAX else b"%d" % count
    reason = b"fatal" if is_fatal else b"expired" if is_expired else b"max_deliveries"
    error = group.pel.errors.get(pending.id)
    origin = Origin(stream, str(entry.id).encode(), group.name, deliveries, reason, error)
    return origin.behind(entry.fields)
