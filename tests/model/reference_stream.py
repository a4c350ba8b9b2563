"""One stream as plain lists: entries dead and alive, groups, what is pending, remembered keys.

Written from the description of Redis Streams, never from the engine, and scanned from end to end
for every question. Where Headgate differs from Redis on purpose, the line says `Ours:`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from headgate.engine.config import NO_POLICY, GroupPolicy, StreamConfig
from headgate.engine.entry import MIN_ID, Entry, EntryId, EntryTimes, Fields
from headgate.engine.replies import Delivery
from headgate.engine.requests.entries import References, TrimTo

NODES_PER_TRIM = 100
TRIM_DEFAULT = 10_000  # where nodes are without bound
TRIM_MAX = 1_000_000


@dataclass
class Slot:
    """The place of an entry, alive or dead: a dead one still takes its place in the node."""

    id: EntryId
    fields: Fields
    node: int
    alive: bool = True


NEVER_MS = 2**62


@dataclass
class Pending:
    """One line of the PEL."""

    id: EntryId
    owner: bytes | None = None
    at_ms: int = 0
    count: int = 0
    turn: int = 0  # order of arrival
    delayed_until: int = 0  # nobody gets it before
    error: bytes | None = None  # Ours: of the last nack that carried one


@dataclass
class Reader:
    """A consumer."""

    seen_ms: int
    active_ms: int | None = None


@dataclass
class RefGroup:
    """A consumer group."""

    last_id: EntryId
    entries_read: int | None
    policy: GroupPolicy = NO_POLICY
    pel: list[Pending] = field(default_factory=list)
    readers: dict[bytes, Reader] = field(default_factory=dict)
    turns: int = 0
    turns_before: int = 0  # when the read that goes on began
    held: dict[EntryId, bytes] = field(default_factory=dict)  # with their keys
    turns_taken: dict[EntryId, bytes] = field(default_factory=dict)
    # Delayed before they wait for their turn: with key, and when each is due.
    later: dict[EntryId, tuple[bytes, int]] = field(default_factory=dict)
    is_blocked: bool = False  # by the number of held entries, in the last read
    rate_used_ms: Fraction = Fraction(0)  # what was delivered counts for the rate until then

    def find(self, entry_id: EntryId) -> Pending | None:
        matching = [entry for entry in self.pel if entry.id == entry_id]
        return matching[0] if matching else None

    def held_by(self, consumer: bytes | None) -> list[Pending]:
        return [entry for entry in self.pel if entry.owner == consumer]

    def see(self, consumer: bytes, now_ms: int) -> Reader:
        reader = self.readers.setdefault(consumer, Reader(now_ms))
        reader.seen_ms = now_ms
        return reader

    def stamp(self, pending: Pending, owner: bytes | None, at_ms: int, count: int) -> None:
        self.turns += 1
        later_key, _ = self.later.pop(pending.id, (None, 0))
        key = self.held.pop(pending.id, later_key)
        if key is not None and self.policy.key_turns is not None:
            self.turns_taken[pending.id] = key
        pending.owner, pending.at_ms, pending.count, pending.turn = owner, at_ms, count, self.turns
        pending.delayed_until = 0
        if pending not in self.pel:
            self.pel = sorted([*self.pel, pending], key=lambda each: each.id)

    def set_clock(self, by_ms: int) -> None:
        self.rate_used_ms += by_ms
        for entry in self.pel:
            entry.at_ms += by_ms if entry.owner is not None else 0
            if entry.delayed_until not in (0, NEVER_MS):
                entry.delayed_until += by_ms
        self.later = {each: (key, due_ms + by_ms) for each, (key, due_ms) in self.later.items()}
        for reader in self.readers.values():
            reader.seen_ms += by_ms
            if reader.active_ms is not None:
                reader.active_ms += by_ms

    def hold(self, entry_id: EntryId, key: bytes, due_ms: int | None = None) -> None:
        pending = Pending(entry_id)
        self.stamp(pending, None, 0, 0)
        pending.delayed_until = NEVER_MS
        if due_ms is None:
            self.held[entry_id] = key
        else:
            self.later[entry_id] = key, due_ms

    def delay(self, entry_id: EntryId, until_ms: int) -> None:
        """Ours: make an entry pending that nobody gets before a time."""
        pending = Pending(entry_id)
        self.stamp(pending, None, 0, 0)
        pending.delayed_until = until_ms

    def join(self, now_ms: int) -> None:
        """Ours: let entries that are due wait for their turn."""
        for entry_id, (key, due_ms) in list(self.later.items()):
            if due_ms <= now_ms:
                del self.later[entry_id]
                self.held[entry_id] = key

    def delay_of(self, pending: Pending, now_ms: int) -> int:
        """Ours: return for how long nobody gets an entry (ms), as far as it is known."""
        until_ms = pending.delayed_until
        if pending.id in self.later:
            until_ms = self.later[pending.id][1]
        return max(until_ms - now_ms, 0) if pending.id not in self.held and until_ms else 0

    def turns_of(self, key: bytes) -> int:
        return list(self.turns_taken.values()).count(key)

    def ready(self) -> list[EntryId]:
        """Ours: return the held entries whose turn has come."""
        turns, ready, given = self.policy.key_turns, list[EntryId](), list[bytes]()
        for entry_id, key in sorted(self.held.items()):
            if turns is None or self.turns_of(key) + given.count(key) < turns:
                ready.append(entry_id)
                given.append(key)
        return ready

    def waits_for(self, entry_id: EntryId) -> EntryId | None:
        """Ours: return an entry of the same key that has its turn."""
        key = self.held.get(entry_id)
        return min((each for each, other in self.turns_taken.items() if other == key), default=None)

    def forget_turn(self, entry_id: EntryId) -> None:
        """Ours: the entry is gone from the stream."""
        self.turns_taken.pop(entry_id, None)
        if entry_id in self.held or entry_id in self.later:
            self.drop(entry_id)

    def drop(self, entry_id: EntryId) -> bool:
        self.held.pop(entry_id, None)
        self.later.pop(entry_id, None)
        self.turns_taken.pop(entry_id, None)
        before = len(self.pel)
        self.pel = [entry for entry in self.pel if entry.id != entry_id]
        return len(self.pel) < before

    def longest_idle_first(self, now_ms: int) -> list[Pending]:
        """Nobody's come first, those that have rested before all; then by time.

        Those that rest no more come in the order in which their rest was over, the others of
        nobody's in the order in which they were given back.
        """
        nobodys = [pending for pending in self.held_by(None) if pending.delayed_until <= now_ms]
        nobodys.sort(
            key=lambda pending: (not pending.delayed_until, pending.delayed_until, pending.turn)
        )
        owned = [entry for entry in self.pel if entry.owner is not None]
        return nobodys + sorted(owned, key=lambda pending: (pending.at_ms, pending.turn))


@dataclass
class UsedKey:
    """The append under an idempotency key."""

    producer: bytes
    key: bytes
    ids: list[EntryId]
    digest: bytes
    at_ms: int


@dataclass
class RefStream:
    """A stream."""

    epoch: int
    config: StreamConfig
    slots: list[Slot] = field(default_factory=list)
    last_id: EntryId = MIN_ID
    deleted_max: EntryId = MIN_ID
    trimmed_max: EntryId = MIN_ID
    gone_max: EntryId = MIN_ID  # Ours: the greatest id that a trim took, and no archive has
    archive: dict[EntryId, Fields] = field(default_factory=dict)
    added: int = 0
    groups: dict[bytes, RefGroup] = field(default_factory=dict)
    open_node: int = 0  # where the next entry goes
    keys: list[UsedKey] = field(default_factory=list)  # in order of use
    keys_added: int = 0
    keys_repeated: int = 0
    expires_at_ms: int | None = None
    closed_at_ms: int | None = None  # Ours: since then nothing is appended
    attributes: dict[bytes, bytes] = field(default_factory=dict)  # Ours
    times: dict[EntryId, EntryTimes] = field(default_factory=dict)  # Ours: of entries with times
    looked: set[EntryId] = field(default_factory=set)  # whose deadline was over in a round

    def is_over(self, entry_id: EntryId, now_ms: int) -> bool:
        """Ours: tell whether the deadline of an entry is over."""
        deadline_ms = self.times[entry_id].expires_at_ms if entry_id in self.times else None
        return deadline_ms is not None and deadline_ms <= now_ms

    def timed(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        """Ours: return deliveries with the times of their entries."""
        return [each._replace(times=self.times.get(each.id)) for each in deliveries]

    @property
    def entries(self) -> list[Entry]:
        return [Entry(slot.id, slot.fields) for slot in self.slots if slot.alive]

    @property
    def everything(self) -> list[Entry]:
        """Ours: return all entries, archived and alive."""
        return sorted([*(Entry(*each) for each in self.archive.items()), *self.entries])

    @property
    def ids(self) -> list[EntryId]:
        return [entry.id for entry in self.entries]

    @property
    def first_id(self) -> EntryId:
        return self.ids[0] if self.ids else MIN_ID

    @property
    def nodes(self) -> list[list[Slot]]:
        numbers = sorted({slot.node for slot in self.slots})
        return [[slot for slot in self.slots if slot.node == number] for number in numbers]

    def get(self, entry_id: EntryId) -> Entry | None:
        matching = [entry for entry in self.entries if entry.id == entry_id]
        return matching[0] if matching else None

    def append(self, entry: Entry, node_max: int) -> None:
        """Add an entry. Ours: a node that another one has followed is never added to again."""
        newest = [slot for slot in self.slots if slot.node == self.open_node]
        if not newest or 0 < node_max <= len(newest):
            self.open_node += 1
        self.slots.append(Slot(entry.id, entry.fields, self.open_node))
        self.last_id = entry.id
        self.added += 1

    def remove(self, ids: Sequence[EntryId]) -> None:
        """Mark entries dead, and free the nodes in which nothing lives."""
        for slot in self.slots:
            slot.alive = slot.alive and slot.id not in ids
        living = {slot.node for slot in self.slots if slot.alive}
        self.slots = [slot for slot in self.slots if slot.node in living]

    def set_last_id(self, last_id: EntryId) -> None:
        """Set the last id, even to one below entries that are gone: such ids may come again.

        Ours: then the newest node is closed, and ends with its last live entry.
        """
        self.last_id = last_id
        self.archive = {each: self.archive[each] for each in self.archive if each <= last_id}
        if self.slots and self.slots[-1].id > last_id:
            self.open_node += 1
            while not self.slots[-1].alive:
                self.slots.pop()

    def trim(self, ids: Sequence[EntryId]) -> int:
        if self.config.archive:
            self.archive |= {each.id: each.fields for each in self.entries if each.id in ids}
        self.remove(ids)
        self.trimmed_max = max([self.trimmed_max, *ids])
        if ids and not self.config.archive:
            self.gone_max = self.trimmed_max
        return len(ids)

    def trim_archive(self, before: EntryId | None) -> int:
        """Ours: remove what is archived below an id."""
        gone = [each for each in self.archive if before is None or each < before]
        self.archive = {each: self.archive[each] for each in self.archive if each not in gone}
        self.gone_max = max([self.gone_max, *gone])
        return len(gone)

    def purge(self, ids: Sequence[EntryId]) -> None:
        """Drop ids from the PEL of every group (DELREF)."""
        for group in self.groups.values():
            for entry_id in ids:
                group.drop(entry_id)

    def is_needed(self, entry_id: EntryId) -> bool:
        """Tell whether a group has not read the entry, or has it pending (ACKED)."""
        groups = self.groups.values()
        unread = bool(groups) and entry_id > min(group.last_id for group in groups)
        return unread or any(group.find(entry_id) is not None for group in groups)

    def to_trim(self, request: TrimTo, node_max: int) -> list[EntryId]:
        """Return the ids that a trim takes: node by node, and within a node entry by entry."""
        gone: list[EntryId] = []
        limit = trim_limit(request, node_max)
        only_whole = request.approximate and request.references is References.KEEP
        for node in self.nodes:
            alive = [slot.id for slot in node if slot.alive]
            left = len(self.ids) - len(gone)
            if limit and len(gone) + len(alive) > limit:
                break
            if request.max_length is not None:
                goes_whole = left - len(alive) >= request.max_length
            else:
                goes_whole = request.min_id is not None and node[-1].id < request.min_id
            if only_whole and not goes_whole:
                break
            gone += self._to_trim_of(alive, request, left)
            if not goes_whole:
                break
        return gone

    def _to_trim_of(self, alive: Sequence[EntryId], request: TrimTo, left: int) -> list[EntryId]:
        gone: list[EntryId] = []
        for entry_id in alive:
            if request.max_length is not None and left - len(gone) <= request.max_length:
                break
            if request.min_id is not None and entry_id >= request.min_id:
                break
            if request.references is not References.ACKED or not self.is_needed(entry_id):
                gone.append(entry_id)
        return gone

    # What a group has read, and what is left

    def has_tombstone_from(self, entry_id: EntryId) -> bool:
        return bool(self.ids) and self.deleted_max != MIN_ID and entry_id <= self.deleted_max

    def estimate(self, entry_id: EntryId) -> int | None:
        added, length, first = self.added, len(self.ids), self.first_id
        if added == 0:
            return 0
        if length == 0 and entry_id <= self.last_id:
            return added
        if entry_id != MIN_ID and entry_id < self.deleted_max:
            return None
        if entry_id == self.last_id:
            return added
        if entry_id > self.last_id:
            return None
        if self.deleted_max == MIN_ID or self.deleted_max < first:
            if entry_id < first:
                return added - length
            if entry_id == first:
                return added - length + 1
        return None

    def lag(self, group: RefGroup) -> int | None:
        if self.added == 0 or not self.ids:
            return 0
        if group.last_id < self.first_id and self.deleted_max < self.first_id:
            return len(self.ids)
        if group.entries_read is not None and not self.has_tombstone_from(group.last_id):
            return self.added - group.entries_read
        place = self.estimate(group.last_id)
        return self.added - place if place is not None else None

    def settle_turns(self) -> None:
        """Ours: what is gone from the stream has no turn and no times, and is not held."""
        ids = set(self.ids)
        self.times = {each: times for each, times in self.times.items() if each in ids}
        for group in self.groups.values():
            for entry_id in [*group.held, *group.later, *group.turns_taken]:
                if self.get(entry_id) is None:
                    group.forget_turn(entry_id)

    def advance(self, group: RefGroup, entry_id: EntryId) -> None:
        """Move a group past an entry that it is given."""
        counts_on = group.last_id >= self.first_id and not self.has_tombstone_from(group.last_id)
        if group.entries_read is not None and counts_on:
            group.entries_read += 1
        else:
            group.entries_read = self.estimate(entry_id)
        group.last_id = entry_id


def trim_limit(request: TrimTo, node_max: int) -> int:
    """Return how many entries a trim takes at most; 0 is without bound."""
    if not request.approximate:
        return 0
    if request.limit is not None:
        return min(request.limit, TRIM_MAX)
    return min(NODES_PER_TRIM * node_max if node_max > 0 else TRIM_DEFAULT, TRIM_MAX)
