"""The backends that the suite runs over: how each is opened, and what it can."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from headgate.app.backends.port import Ability, Backend
from headgate.app.main import open_backend
from headgate.app.settings import MEMORY, Settings

SURVIVES = "survives"
"""What it holds is there when it is opened again. The port does not say so: who opens it knows."""

ALL = frozenset({*Ability, SURVIVES})


@dataclass(frozen=True)
class Kind:
    """A backend: how to open it, and what it can."""

    name: str
    open: Callable[[Path], Backend]
    can: frozenset[str] = ALL  # abilities of the port, and SURVIVES

    @asynccontextmanager
    async def running(self, place: Path) -> AsyncIterator[Backend]:
        """Open it, and let it do its work while the context lasts.

        Args:
            place: a folder of its own.
        """
        backend = self.open(place)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(backend.run())
            try:
                yield backend
            finally:
                await backend.close()


KINDS = [
    Kind(
        "memory",
        lambda place: open_backend(Settings(data_dir=MEMORY)),
        ALL - {Ability.JOURNAL, SURVIVES},
    ),
    Kind("disk", lambda place: open_backend(Settings(data_dir=place))),
]
