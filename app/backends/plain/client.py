"""Client: commands for servers that are not a gateway's own."""

from __future__ import annotations

from headgate.app.backends.redis.address import Address
from headgate.app.backends.redis.client import Client


class PlainClient(Client):
    """Commands for servers of any version; functions are neither loaded nor needed."""

    async def prepare(self, address: Address) -> None:
        """Ask for nothing: rights to read streams are enough."""
