"""A backend that does its work while a context lasts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

from headgate.app.backends.port import Backend

B = TypeVar("B", bound=Backend)


@asynccontextmanager
async def running(backend: B) -> AsyncIterator[B]:
    """Let a backend do its work while the context lasts."""
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(backend.run())
        try:
            yield backend
        finally:
            await backend.close()
