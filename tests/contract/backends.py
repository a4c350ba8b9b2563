"""The backends that the suite runs over: how each is opened, and what it can."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path

from headgate.app.backends.port import Backend
from headgate.app.main import open_engine
from headgate.app.settings import MEMORY, Settings
from headgate.engine.engine import Engine


class Ability(Enum):
    """What not every backend can."""

    POLICIES = auto()  # groups act by a policy
    CLAIM_FEED = auto()  # a consumer is told what others take over from it
    BULK = auto()  # plans, splits and batches of writers
    SURVIVES = auto()  # what it holds is there when it is opened again


@dataclass(frozen=True)
class Kind:
    """A backend: how to open it, and what it can."""

    name: str
    open: Callable[[Path], Engine]
    abilities: frozenset[Ability] = field(default_factory=lambda: frozenset(Ability))

    @asynccontextmanager
    async def running(self, place: Path) -> AsyncIterator[Backend]:
        """Open it, and let it do its work while the context lasts.

        Args:
            place: a folder of its own.
        """
        engine = self.open(place)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(engine.run())
            try:
                yield engine
            finally:
                await engine.close()


KINDS = [
    Kind(
        "memory",
        lambda place: open_engine(Settings(data_dir=MEMORY)),
        frozenset(Ability) - {Ability.SURVIVES},
    ),
    Kind("disk", lambda place: open_engine(Settings(data_dir=place))),
]
