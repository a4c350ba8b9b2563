"""Storage: keeps records, and says which of them are durable.

A record is the commands that happen together. Its position is the number of records up to and
including it. The engine appends and applies at once, and holds its answer until the position that
the answer depends on is durable. A storage turns commands into bytes itself (`commands.encode`);
one that keeps nothing need not.
"""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple, Protocol

from headgate.engine.commands import Command, encode, encode_each, encode_parts
from headgate.engine.entry import EntryId
from headgate.engine.errors import Unavailable
from headgate.engine.state.extent import Damaged, Line, OpenedExtent
from headgate.engine.state.keyspace import Keyspace
from headgate.engine.state.memory import ExtentPlace, Memory

GoBack = Callable[[Keyspace | None], None]
"""Told that the state is another one: what came behind it was promised to nobody. None: it is about
to be, once that can be read."""


class StreamIndex(NamedTuple):
    stream: bytes
    epoch: int
    lines: Sequence[Line]  # those that may be new to the engine, in order


class Holder(Protocol):
    @property
    def memory(self) -> Memory: ...

    def begin(self, last_file: int) -> int:
        """Note that a rewrite begins; returns up to which extent file all is known here."""
        ...

    async def adopt(self, indexes: Sequence[StreamIndex], *, is_late: bool) -> AbstractSet[str]:
        """Take over the index of a rewrite, with other requests in between.

        `indexes` are the lines of each stream that may be new here. `is_late`: memory grows faster
        than it is frozen, so this may take more of the time. Returns the extent files still in use
        here.
        """
        ...

    async def local_files(self) -> AbstractSet[str]:
        """Return the names of the extent files that streams want to keep on the disk."""
        ...

    async def replay(self, record: Sequence[Command]) -> None:
        """Apply a record that another gateway has written, and let those who wait for it see it."""
        ...

    def lose_tail(self, first_id: EntryId, last_id: EntryId) -> None:
        """Record that what a leader before this one appended between two ids may be lost."""
        ...


class Nobody:
    """No engine runs on the storage. It is a `Holder`."""

    def __init__(self) -> None:
        self.memory = Memory()

    def begin(self, last_file: int) -> int:
        return last_file

    async def adopt(
        self,
        indexes: Sequence[StreamIndex],  # noqa: ARG002
        *,
        is_late: bool,  # noqa: ARG002
    ) -> AbstractSet[str]:
        return frozenset()

    async def local_files(self) -> AbstractSet[str]:
        return frozenset()

    async def replay(self, record: Sequence[Command]) -> None:
        """Do nothing."""

    def lose_tail(self, first_id: EntryId, last_id: EntryId) -> None:
        """Do nothing."""


class Storage(Protocol):
    change_count: int
    """Changes in the appended records, counted by the engine. See `changes`."""

    replay_us: int
    """Time to apply the appended records again, since the start. See `Keyspace`."""

    @property
    def unsaved_count(self) -> int:
        """Return how many changes no snapshot has yet, since the start; a few more at most."""
        ...

    @property
    def position(self) -> int:
        """Return the position of the last record appended; 0 before the first."""
        ...

    @property
    def durable_position(self) -> int:
        """Return the position up to which nothing can be lost any more."""
        ...

    def append(self, commands: list[Command]) -> int:
        """Append commands as one record; returns its position. Unavailable if closed."""
        ...

    def stage(self, commands: list[Command]) -> None:
        """Take the next part of one record; after Unavailable, the parts before stay staged."""
        ...

    def append_staged(self) -> None:
        """Take the parts that were staged as one record, behind all others; without any, none."""
        ...

    def abandon(self, reason: str) -> None:
        """Accept no records any more, and give up those that are not kept yet."""
        ...

    @property
    def failure(self) -> str | None:
        """Return why no records are accepted any more; None if all is well."""
        ...

    @property
    def refusal(self) -> str | None:
        """Return why some or all records are refused, for now or for ever; None if all is well."""
        ...

    @property
    def unavailable(self) -> Unavailable:
        """Return the error that says why records are refused. There must be a `refusal`."""
        ...

    @property
    def withheld(self) -> Unavailable | None:
        """Return why nothing may even be read here; None if it may."""
        ...

    async def until_open(self) -> None:
        """Return once records may be appended at all: at once, unless another gateway leads."""
        ...

    @property
    def is_scarce(self) -> bool:
        """Tell whether room is so short that nothing may become pending."""
        ...

    async def wait_durable(self, position: int) -> None: ...

    async def read_extents(self, places: Sequence[ExtentPlace]) -> list[OpenedExtent | OSError]:
        """Read neighbouring extents while the event loop goes on: each, or why not."""
        ...

    def read_extent_now(self, place: ExtentPlace) -> OpenedExtent:
        """Read an extent, while everything waits."""
        ...

    def note_damage(self, damaged: Damaged) -> None: ...

    @property
    def data_bytes_max(self) -> int | None:
        """Return the room for entries, in bytes; None: no bound."""
        ...

    @property
    def freezable_bytes(self) -> int:
        """Return the bytes in memory that can leave it; 0 if they are few."""
        ...

    async def until_frozen(self) -> bool:
        """Wait until what can leave memory has, or long; tells whether waiting again is of use."""
        ...

    async def run(self, go_back: GoBack, holder: Holder | None = None) -> None:
        """Make records durable, until `close` or Unavailable.

        `go_back` gets the durable state when records behind it were given up; `holder` takes over
        what a rewrite has frozen.
        """
        ...

    async def close(self) -> None:
        """Make the accepted records durable, and end `run`."""
        ...


class MemoryStorage:
    """Calls records durable, and keeps the newest for tests: nothing survives the process."""

    def __init__(
        self,
        records_max: int | None = None,
        read_extent: Callable[[ExtentPlace], OpenedExtent] | None = None,
    ) -> None:
        """Keep `records_max` records (None: all). No bound counts them, so a gateway keeps none."""
        self._read_extent = read_extent
        self.records: deque[bytes] = deque(maxlen=records_max)
        self.position = 0
        self.failure: str | None = None
        self.change_count = self.replay_us = 0
        self._staged: list[bytes] = []

    @property
    def unsaved_count(self) -> int:
        return self.change_count

    @property
    def durable_position(self) -> int:
        return self.position

    def append(self, commands: list[Command]) -> int:
        if self.failure is not None:
            raise Unavailable(self.failure)
        if self.records.maxlen != 0:
            self.records.append(encode(commands))
        self.position += 1
        return self.position

    def stage(self, commands: list[Command]) -> None:
        if commands and self.failure is not None:
            raise Unavailable(self.failure)
        self._staged += encode_each(commands)

    def append_staged(self) -> None:
        if self._staged:
            self.records.append(encode_parts(self._staged))
            self.position += 1
            self._staged = []

    def abandon(self, reason: str) -> None:
        self.failure = reason
        self._staged = []

    @property
    def refusal(self) -> str | None:
        return self.failure

    @property
    def unavailable(self) -> Unavailable:
        return Unavailable(self.refusal or "")

    @property
    def withheld(self) -> Unavailable | None:
        return None

    async def until_open(self) -> None:
        """Return at once."""

    @property
    def is_scarce(self) -> bool:
        return False

    async def wait_durable(self, position: int) -> None:
        """Return at once."""

    async def read_extents(self, places: Sequence[ExtentPlace]) -> list[OpenedExtent | OSError]:
        return [self.read_extent_now(place) for place in places]

    def read_extent_now(self, place: ExtentPlace) -> OpenedExtent:
        if self._read_extent is None:
            raise OSError(errno.ENOENT, f"no extent at {place}")
        return self._read_extent(place)

    def note_damage(self, damaged: Damaged) -> None:
        """Do nothing: nobody asks."""

    @property
    def data_bytes_max(self) -> int | None:
        return None

    @property
    def freezable_bytes(self) -> int:
        return 0

    async def until_frozen(self) -> bool:
        return False

    async def run(self, go_back: GoBack, holder: Holder | None = None) -> None:
        """Return at once: there is nothing to do, and nothing to go back to."""

    async def close(self) -> None:
        """Return at once."""
