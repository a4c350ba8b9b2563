"""Sending: a POST to a target, within bounds."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from headgate.app.runtime.families import versions
from headgate.app.runtime.threads import WEBHOOKS
from headgate.app.webhooks.addresses import LookUp
from headgate.app.webhooks.connection import TargetAnswer
from headgate.app.webhooks.connections import TargetConnections
from headgate.app.webhooks.places import Places
from headgate.app.webhooks.targets import Targets

SENDS_MAX = 1_024
"""Requests at a time: each has a connection."""

LARGE_BYTES_MAX = 134_217_728
"""Bytes of large bodies at a time, before they are encoded."""

LARGE_UNIT_BYTES = 131_072
"""Bytes of a place for them. A body with fewer is none of them."""


class Sender:
    """Sends requests. Redirects are not followed, and no proxy of the environment is used."""

    def __init__(
        self, targets: Targets, identity: str | None = None, look_up: LookUp | None = None
    ) -> None:
        """Send to these targets.

        Args:
            targets: which there are.
            identity: who sends, beside the version of the gateway; None: nobody says.
            look_up: returns the addresses of a name; the resolver of the machine unless given.
        """
        self.places = Places(SENDS_MAX)
        self.large_places = Places(LARGE_BYTES_MAX // LARGE_UNIT_BYTES)
        self._targets, self._look_up = targets, look_up
        self._agent, self._identity = "", f" ({identity})" if identity else ""
        self._connections: TargetConnections | None = None
        self._opening = asyncio.Lock()

    async def post(
        self, url: str, body: bytes, headers: Mapping[str, str], *, within_s: float
    ) -> TargetAnswer:
        """Wait for a place, send a request, and return the answer; see `send`."""
        host = self._targets.check(url).hostname
        async with asyncio.timeout(within_s), self.places.within(host):
            return await self.send(url, body, headers, within_s=within_s)

    async def send(
        self, url: str, body: bytes, headers: Mapping[str, str], *, within_s: float
    ) -> TargetAnswer:
        """Send a request, and return the answer. Whoever calls this has a place.

        Args:
            url: of the target, which was checked. The address of the connection is in any case.
            body: of the request.
            headers: of the request.
            within_s: how long all of it may take.

        Raises:
            TargetRefused: the target is not allowed.
            OSError: nobody answers there (a `TimeoutError`: in time).
        """
        async with asyncio.timeout(within_s):
            connections = self._connections or await self._open()
            return await connections.post(url, body, {**headers, "User-Agent": self._agent})

    async def _open(self) -> TargetConnections:
        async with self._opening:
            if self._connections is None:
                version = await WEBHOOKS.call_if_awaited(_prepare)
                self._agent = f"Headgate/{version}{self._identity}"
                self._connections = TargetConnections(self._targets, self._look_up)
            return self._connections

    async def close(self) -> None:
        """Close the connections."""
        if self._connections is not None:
            await self._connections.close()


def _prepare() -> str:
    """Return the version of the gateway; most send nothing, and need no certificates."""
    TargetConnections.prepare()
    return versions()[0]
