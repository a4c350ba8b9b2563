"""A gateway that asks for credentials, and the keys to it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from headgate.app.auth.grants import Grant
from headgate.app.auth.principal import Unauthenticated
from headgate.app.settings import Settings
from tests.api.conftest import Live, running
from tests.conditions import until
from tests.key_files import EVERYTHING, Keys


@dataclass
class Secured:
    """A gateway that asks for credentials."""

    live: Live
    keys: Keys
    admin: httpx.AsyncClient

    @asynccontextmanager
    async def client(self, token: str | None) -> AsyncIterator[httpx.AsyncClient]:
        """Yield a client that sends this token."""
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        async with httpx.AsyncClient(
            base_url=self.live.url, headers=headers, timeout=30, verify=False
        ) as http:
            yield http

    async def key(self, *grants: Grant, **more: Any) -> str:
        """Add a key; returns its text once the gateway knows it."""
        text = await asyncio.to_thread(partial(self.keys.add, *grants, **more))
        await until(lambda: self.knows(text))
        return text

    def knows(self, text: str) -> bool:
        """Tell whether a key, or a token, is good here."""
        try:
            self.live.gateway.auth.verify(text)
        except Unauthenticated:
            return False
        return True

    async def revoke(self, text: str) -> None:
        """Revoke a key: what it opened ends soon."""
        await asyncio.to_thread(self.keys.revoke, text)


@asynccontextmanager
async def secured(folder: Path, **settings: Any) -> AsyncIterator[Secured]:
    """Run a gateway with an admin key, and a keys file to which others can be added.

    Keys that are added while it runs are known to it within a second.
    """
    keys = Keys(folder / "keys.json")
    admin = await asyncio.to_thread(keys.add, EVERYTHING, name="admin")
    chosen = {"heartbeat_ms": 200, "keys_file": keys.path, **settings}
    async with running(Settings(**chosen)) as live:
        live.http.headers["Authorization"] = f"Bearer {admin}"
        yield Secured(live, keys, live.http)
