"""Shipping: takes the records of a journal to another place, such as a bucket."""

from __future__ import annotations

import asyncio
from collections.abc import Set as AbstractSet
from typing import Protocol

from headgate.engine.errors import Unavailable
from headgate.engine.journal.faults import Faults
from headgate.engine.journal.records import Records
from headgate.engine.journal.storage import GoBack, Holder
from headgate.engine.replies import BucketStatus


class Shipping(Protocol):
    """Takes the records of a journal to another place, once it may write at all."""

    leads: asyncio.Event
    """It may write."""

    @property
    def held(self) -> AbstractSet[str]:
        """Return the names of files that stay until they are there."""
        ...

    @property
    def withheld(self) -> Unavailable | None:
        """Return why nothing may be read; None if it may."""
        ...

    @property
    def status(self) -> BucketStatus: ...

    def note_writing(self) -> None: ...

    def note_written(self, segment: str, end: int, position: int) -> None:
        """Note that a segment has bytes up to a place, with a last record before it."""
        ...

    def note_snapshot(self, position: int) -> None: ...

    async def begin(self, records: Records, faults: Faults, holder: Holder) -> bool:
        """Wait until the journal may write; false if closed before; Unavailable, Corrupt."""
        ...

    async def run(self, faults: Faults, go_back: GoBack) -> None:
        """Take there what is written, until `end`; LeaseLost if somebody else may write now."""
        ...

    def end(self) -> None: ...

    async def release(self) -> None: ...
