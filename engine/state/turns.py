"""Turns: the order among pending entries of the same key.

The policy of a group may bound how many entries with the same value of a field, the *key*, are
pending at once. Such an entry has its *turn* from its first delivery until it is not pending any
more. Entries behind it are *held*: they are pending, without an owner, and nobody gets them before
their turn comes. Which keys have room and held entries is known at any time, so the next entry is
found at once, however many keys there are.

Where keys are many, most have one entry, and it has its turn. Such a key needs no queue.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from heapq import heappop, heappush
from itertools import chain, islice, repeat
from typing import Protocol, TypeGuard

from sortedcontainers import SortedDict, SortedList

from headgate.engine.entry import MIN_ID, EntryId
from headgate.engine.limits import FREED_AT_ONCE_MAX
from headgate.engine.state.memory import QUEUE_BYTES, TURN_BYTES, Memory, Pieces

HELD_MS = 2**62
"""The end of a held entry's delay: it is not due by time."""

_JOINED_AT_ONCE = 1_000
"""Entries that join the queues of their keys together, as they are due. Each takes 5 µs."""

_LOOKED_AT_ONCE = 1_000
"""Keys that are looked at together after a change of the bound. Each takes 2 µs."""


class _Queue:
    __slots__ = ("head", "held", "key", "taken")

    def __init__(self, key: bytes) -> None:
        self.key = key
        self.taken: dict[EntryId, None] = {}  # those that have their turn
        self.held: MutableMapping[EntryId, None] = OrderedDict()  # in order of ids
        self.head: EntryId | None = None  # the first held one, if the key has room

    def hold(self, entry_id: EntryId) -> None:
        """Hold an entry back, in order of ids. Only one that was delayed is below others."""
        held = self.held
        if isinstance(held, OrderedDict) and held and entry_id < next(reversed(held)):
            self.held = held = SortedDict(held)
        held[entry_id] = None


class Resting(Protocol):
    """Keys whose entries wait elsewhere until one of theirs is settled."""

    @property
    def resting(self) -> set[bytes | None]: ...

    def rouse(self, key: bytes) -> None: ...


class Turns:
    __slots__ = (
        "_due",
        "_gone_through",
        "_keys",
        "_later",
        "_memory",
        "_queues",
        "_ready",
        "_resting",
        "_single",
        "_unchecked",
        "at_once",
        "held_count",
    )

    def __init__(self, memory: Memory) -> None:
        self.at_once: int | None = None  # turns of a key at the same time; None: any number
        self.held_count = 0
        self._resting: Resting | None = None
        self._memory = memory
        memory.has_turns = True
        self._keys: dict[EntryId, bytes] = {}
        self._single: dict[bytes, EntryId] = {}  # of keys with one entry, which has its turn
        self._queues: dict[bytes, _Queue] = {}  # of all other keys
        self._ready: SortedDict[EntryId, _Queue] = SortedDict()  # by their heads
        self._unchecked: deque[_Queue] = deque()  # the bound has changed since their last look
        # Entries that are delayed do not wait for others yet, nor others for them: when each of
        # them is due, and the same in order.
        self._later: dict[EntryId, int] = {}
        self._due: SortedList[tuple[int, EntryId]] = SortedList()
        self._gone_through = MIN_ID  # no entry up to here is left

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def has_ready(self) -> bool:
        """Tell whether the turn of a held entry has come, or may have come."""
        return bool(self._ready) or bool(self._unchecked)

    @property
    def later_count(self) -> int:
        return len(self._later)

    @property
    def next_due_ms(self) -> int | None:
        return self._due[0][0] if self._due else None

    def due_ms(self, entry_id: EntryId) -> int | None:
        return self._later.get(entry_id)

    def join(self, now_ms: int) -> bool:
        for _ in range(_JOINED_AT_ONCE):
            if not self._due or self._due[0][0] > now_ms:
                return True
            self._join(self._due[0][1])
        return False

    def _join(self, entry_id: EntryId) -> None:
        self._due.remove((self._later.pop(entry_id), entry_id))
        self._wait(entry_id, self._keys[entry_id])

    def _wait(self, entry_id: EntryId, key: bytes) -> None:
        self.held_count += 1
        queue = self._queue_of(key)
        queue.hold(entry_id)
        self._check(queue)

    @property
    def memory_bytes(self) -> int:
        return TURN_BYTES * len(self._keys) + QUEUE_BYTES * len(self._queues)

    def items(self) -> Iterator[tuple[EntryId, bytes]]:
        """Yield entries with their keys, by turn for each key, without the delayed ones."""
        for key, entry_id in self._single.items():
            yield entry_id, key
        for key, queue in self._queues.items():
            for entry_id in chain(queue.taken, queue.held):
                yield entry_id, key

    def later(self) -> Iterator[tuple[EntryId, bytes, int]]:
        return ((entry_id, self._keys[entry_id], due_ms) for due_ms, entry_id in self._due)

    def dismantle(self) -> Pieces:
        self._ready.clear()
        self._due.clear()
        self._unchecked.clear()
        for part in (self._keys, self._single, self._queues, self._later):
            while part:
                for _ in range(min(FREED_AT_ONCE_MAX, len(part))):
                    part.popitem()
                yield

    def room(self, key: bytes) -> int | None:
        if self.at_once is None:
            return None
        queue = self._queues.get(key)
        if queue is None:
            return self.at_once - (key in self._single)
        return 0 if queue.held else max(self.at_once - len(queue.taken), 0)  # the held come first

    def tell(self, resting: Resting | None) -> None:
        """Tell of keys that rest and have room for another entry, if no held one waits for it."""
        self._resting = resting

    def pending_count(self, key: bytes) -> int:
        """Return how many entries of a key are pending, held ones aside."""
        queue = self._queues.get(key)
        return int(key in self._single) if queue is None else len(queue.taken)

    def are_free(self, keys: Sequence[bytes | None]) -> TypeGuard[Sequence[bytes]]:
        """Tell whether all are keys without an entry, and no two are equal."""
        distinct = set(keys)
        return (
            len(distinct) == len(keys)
            and None not in distinct
            and self._single.keys().isdisjoint(distinct)
            and (not self._queues or self._queues.keys().isdisjoint(distinct))
        )

    def ready(self) -> Iterator[EntryId]:
        """Yield held entries whose turn has come, by id. Do not change the turns meanwhile."""
        self._look()
        heads = iter(self._ready.items())
        head = next(heads, None)
        following: list[tuple[EntryId, Iterator[EntryId]]] = []  # a heap
        others: Iterator[EntryId]
        while head is not None or following:
            if head is not None and (not following or head[0] < following[0][0]):
                (entry_id, queue), head = head, next(heads, None)
                room = None if self.at_once is None else self.at_once - len(queue.taken)
                if room is not None and room <= 0:  # it is not checked yet
                    continue
                others = islice(queue.held, 1, room)
            else:
                entry_id, others = heappop(following)
            yield entry_id
            after = next(others, None)
            if after is not None:
                heappush(following, (after, others))

    def before(self, entry_id: EntryId) -> Iterable[EntryId]:
        queue = self._queue_that_holds(entry_id)
        return () if queue is None else queue.taken

    def change(self, at_once: int | None) -> None:
        if at_once != self.at_once:
            self.at_once = at_once
            self._unchecked = deque(self._queues.values())

    def take(self, entry_id: EntryId, key: bytes) -> None:
        self.take_all((entry_id,), (key,))

    def take_all(self, ids: Sequence[EntryId], keys: Sequence[bytes | None]) -> None:
        known, single, count = self._keys, self._single, len(self._keys)
        if ids and ids[0] <= self._gone_through:
            self._gone_through = MIN_ID
        if self.are_free(keys) and known.keys().isdisjoint(ids):
            known.update(zip(ids, keys, strict=True))
            single.update(zip(keys, ids, strict=True))
            keys = ids = ()
        for entry_id, key in zip(ids, keys, strict=True):
            if key is None or entry_id in known:
                continue
            known[entry_id] = key
            if key in self._queues or single.setdefault(key, entry_id) is not entry_id:
                queue = self._queue_of(key)
                queue.taken[entry_id] = None
                self._check(queue)
        self._memory.pending_bytes += TURN_BYTES * (len(known) - count)

    def hold(self, entry_id: EntryId, key: bytes, due_ms: int = 0) -> None:
        """Hold an entry back; with a time, one that is delayed until then."""
        if entry_id in self._keys:
            return
        if entry_id <= self._gone_through:
            self._gone_through = MIN_ID
        self._keys[entry_id] = key
        self._memory.pending_bytes += TURN_BYTES
        if due_ms:
            self._later[entry_id] = due_ms
            self._due.add((due_ms, entry_id))
        else:
            self._wait(entry_id, key)

    def begin(self, entry_id: EntryId) -> None:
        if entry_id in self._later:
            self._join(entry_id)
        queue = self._queue_that_holds(entry_id)
        if queue is None:
            return
        if self.at_once is None:  # nobody waits for it
            self.end_all((entry_id,))
            return
        del queue.held[entry_id]
        self.held_count -= 1
        queue.taken[entry_id] = None
        self._check(queue)

    def end_all(self, ids: Sequence[EntryId]) -> None:
        count = len(self._keys)
        keys = list(map(self._keys.pop, ids, repeat(None)))
        self._memory.pending_bytes -= TURN_BYTES * (count - len(self._keys))
        if self._are_single(keys):
            deque(map(self._single.pop, keys), 0)
            return
        for entry_id, key in zip(ids, keys, strict=True):
            if key is None:
                continue
            if entry_id in self._later:
                self._due.remove((self._later.pop(entry_id), entry_id))
                continue
            queue = self._queues.get(key)
            if queue is None:
                del self._single[key]
            else:
                if entry_id in queue.held:
                    del queue.held[entry_id]
                    self.held_count -= 1
                else:
                    del queue.taken[entry_id]
                self._check(queue)
            if self._resting is not None and key in self._resting.resting and self.room(key) != 0:
                self._resting.rouse(key)

    def _are_single(self, keys: Sequence[bytes | None]) -> TypeGuard[Sequence[bytes]]:
        """Tell whether each is a key with one entry, for which nothing waits."""
        if self._later or None in keys:
            return False
        if self._queues and not self._queues.keys().isdisjoint(keys):
            return False
        resting = None if self._resting is None else self._resting.resting
        return not resting or resting.isdisjoint(keys)

    def go_through(self, entry_id: EntryId) -> EntryId:
        """Note that all entries up to an id are to be forgotten; returns where they begin."""
        first_id = self._gone_through.next()
        self._gone_through = max(self._gone_through, entry_id)
        return first_id

    def _queue_of(self, key: bytes) -> _Queue:
        queue = self._queues.get(key)
        if queue is None:
            queue = self._queues[key] = _Queue(key)
            self._memory.pending_bytes += QUEUE_BYTES
            first = self._single.pop(key, None)
            if first is not None:
                queue.taken[first] = None
        return queue

    def _queue_that_holds(self, entry_id: EntryId) -> _Queue | None:
        queue = self._queues.get(self._keys.get(entry_id, b""))
        return queue if queue is not None and entry_id in queue.held else None

    def _check(self, queue: _Queue) -> None:
        taken, held, head = queue.taken, queue.held, None
        if held and (self.at_once is None or len(taken) < self.at_once):
            head = next(iter(held))
        if head != queue.head:
            if queue.head is not None:
                del self._ready[queue.head]
            if head is not None:
                self._ready[head] = queue
            queue.head = head
        if held or self._queues.get(queue.key) is not queue:
            return
        if len(taken) <= 1:
            del self._queues[queue.key]
            self._memory.pending_bytes -= QUEUE_BYTES
            for entry_id in taken:
                self._single[queue.key] = entry_id

    def _look(self) -> None:
        for _ in range(min(_LOOKED_AT_ONCE, len(self._unchecked))):
            self._check(self._unchecked.popleft())
