"""Idempotency: which appends were made under a key or by a writer, so that a retry appends nothing.

Keys belong to a producer. A producer's keys are bounded in number, and the oldest goes first. They
are also bounded in time, from the moment of their use. Redis counts from the entry's id, and so
keeps keys for ever if ids run ahead of the clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import NamedTuple

from headgate.engine.entry import EntryId
from headgate.engine.limits import COUNT_MAX, FREED_AT_ONCE_MAX, WRITER_SILENT_MS_MAX, WRITERS_MAX
from headgate.engine.replies import Commit
from headgate.engine.requests.idempotency import Idempotent
from headgate.engine.state.memory import KEY_BYTES, PRODUCER_BYTES, Memory, Pieces


class Made(NamedTuple):
    """The append under a key: `length` entries whose ids follow `first_id` without a gap."""

    first_id: EntryId
    length: int
    digest: bytes
    at_ms: int  # unix time; of a key that is remembered, steady time

    def ids(self) -> list[EntryId]:
        ids = [self.first_id]
        while len(ids) < self.length:
            ids.append(ids[-1].next())
        return ids


class Keys:
    """The keys of one stream, by producer, each producer's in order of use."""

    __slots__ = (
        "_is_in_order",
        "_memory",
        "added",
        "by_producer",
        "duplicates",
        "last_at_ms",
        "memory_bytes",
    )

    def __init__(self, memory: Memory | None = None) -> None:
        self._memory = memory or Memory()
        self.memory_bytes = 0  # what they take, about
        self.by_producer: dict[bytes, dict[bytes, Made]] = {}
        self.added = 0  # keys ever remembered
        self.duplicates = 0  # retries answered
        self.last_at_ms = 0  # no key was used later
        self._is_in_order = True  # of time; the clock may have stepped back

    def __len__(self) -> int:
        return sum(map(len, self.by_producer.values()))

    @property
    def first_at_ms(self) -> int | None:
        producers = self.by_producer.values()
        if self._is_in_order:
            return min((next(iter(keys.values())).at_ms for keys in producers), default=None)
        return min((made.at_ms for keys in producers for made in keys.values()), default=None)

    def _note_used(self, at_ms: int) -> None:
        self._is_in_order = self._is_in_order and at_ms >= self.last_at_ms
        self.last_at_ms = max(self.last_at_ms, at_ms)

    def find(self, idempotent: Idempotent, since_ms: int) -> Made | None:
        made = self.by_producer.get(idempotent.producer, {}).get(idempotent.key)
        return made if made is not None and made.at_ms >= since_ms else None

    def remember(self, producer: bytes, key: bytes, made: Made, keys_max: int) -> None:
        """Note the append under a key; the producer's oldest goes if there are too many."""
        self.added = min(self.added + 1, COUNT_MAX)
        keys = self.by_producer.get(producer)
        if keys is None:
            keys = self.by_producer[producer] = {}
            self._grow(PRODUCER_BYTES + len(producer))
        if keys.pop(key, None) is None:
            self._grow(KEY_BYTES + len(key))
        keys[key] = made
        self._note_used(made.at_ms)
        if len(keys) > keys_max:
            self._forget(keys, next(iter(keys)))

    def load(self, producer: bytes, keys: Sequence[tuple[bytes, Made]]) -> None:
        if producer not in self.by_producer:
            self.by_producer[producer] = {}
            self._grow(PRODUCER_BYTES + len(producer))
        self.by_producer[producer].update(keys)
        self._grow(KEY_BYTES * len(keys) + sum(len(key) for key, _ in keys))
        times = [made.at_ms for _, made in keys]
        self._is_in_order = self._is_in_order and times == sorted(times)
        self.last_at_ms = max(self.last_at_ms, *times, 0)

    def _forget(self, keys: dict[bytes, Made], key: bytes) -> None:
        del keys[key]
        self._grow(-KEY_BYTES - len(key))

    def _grow(self, size_bytes: int) -> None:
        self.memory_bytes += size_bytes
        self._memory.keys_bytes += size_bytes

    def forget_before(self, at_ms: int) -> None:
        for producer, keys in list(self.by_producer.items()):
            items = keys.items()
            if self._is_in_order:
                gone = [key for key, _ in takewhile(lambda item: item[1].at_ms < at_ms, items)]
            else:
                gone = [key for key, made in items if made.at_ms < at_ms]
            for key in gone:
                self._forget(keys, key)
            if not keys:
                del self.by_producer[producer]
                self._grow(-PRODUCER_BYTES - len(producer))
        self._is_in_order = self._is_in_order or not self.by_producer

    def dismantle(self) -> Pieces:
        while self.by_producer:
            _, keys = self.by_producer.popitem()
            while keys:
                for _ in range(min(FREED_AT_ONCE_MAX, len(keys))):
                    keys.popitem()
                yield

    def clear(self) -> Pieces:
        gone = Keys()
        gone.by_producer, self.by_producer = self.by_producer, {}
        self._grow(-self.memory_bytes)
        return gone.dismantle()


# Writers: the last batch that each writer has committed, so that no batch is written twice.
#
# Writers are bounded in number and in time; the one that has been silent for longest goes first.
# Both follow from the commits, so no record says which writer is forgotten.


class Writers:
    __slots__ = ("by_name",)

    def __init__(self) -> None:
        self.by_name: dict[bytes, Commit] = {}

    def commit(self, name: bytes, batch: int, at_ms: int) -> None:
        """Note a writer's last batch, and forget whom there is no room or no reason to keep."""
        self.by_name.pop(name, None)
        self.by_name[name] = Commit(batch, at_ms)
        while True:
            oldest = next(iter(self.by_name))
            is_old = self.by_name[oldest].at_ms < at_ms - WRITER_SILENT_MS_MAX
            if not is_old and len(self.by_name) <= WRITERS_MAX:
                return
            del self.by_name[oldest]
