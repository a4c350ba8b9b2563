"""Addresses: of the names of targets, looked up each time anew."""

from __future__ import annotations

import asyncio
import importlib
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Sequence

from headgate.app.webhooks.targets import Address, NameUnknown

LookUp = Callable[[str], Awaitable[Sequence[str]]]
"""Returns the addresses of a name."""

_LOOK_UP_S_MAX = 5.0
_ADDRESSES_MAX = 8
"""More of a name are not tried."""


class Addresses:
    """The addresses of names."""

    def __init__(self, look_up: LookUp | None) -> None:
        """Look nothing up yet.

        Args:
            look_up: returns the addresses of a name; the resolver of the machine unless given.
        """
        self._look_up = look_up or _MachineLookUp()

    @classmethod
    def prepare(cls) -> None:
        """Load the library, which takes a while: most gateways do without."""
        importlib.import_module("aiodns")

    async def of(self, host: str) -> list[Address]:
        """Return the addresses of a host, at least one.

        Raises:
            NameUnknown: it has none, or nobody tells them in time.
        """
        try:
            return [ipaddress.ip_address(host)]
        except ValueError:
            pass
        try:
            async with asyncio.timeout(_LOOK_UP_S_MAX):
                addresses = await self._look_up(host)
        except OSError as error:  # also when it takes too long
            raise NameUnknown(f"{host}: {error}") from error
        if not addresses:
            raise NameUnknown(f"{host} has no address")
        try:
            return [ipaddress.ip_address(address) for address in addresses[:_ADDRESSES_MAX]]
        except ValueError as error:
            raise NameUnknown(f"{host}: {error}") from error

    async def close(self) -> None:
        """Ask nobody any more."""
        if isinstance(self._look_up, _MachineLookUp):
            await self._look_up.close()


class _MachineLookUp:
    """The resolver of the machine. It needs no thread, so none waits for a server of names."""

    def __init__(self) -> None:
        import aiodns  # noqa: PLC0415 see `prepare`

        self._resolver, self._error = aiodns.DNSResolver(), aiodns.error.DNSError

    async def __call__(self, name: str) -> Sequence[str]:
        try:
            answer = await self._resolver.getaddrinfo(
                name, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG
            )
        except self._error as error:
            raise OSError(*error.args) from error
        return [_text(node.addr[0]) for node in answer.nodes]

    async def close(self) -> None:
        await self._resolver.close()


def _text(address: bytes | str) -> str:
    return address.decode() if isinstance(address, bytes) else address
