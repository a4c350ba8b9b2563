"""The URLs that may be requested, and the addresses behind them.

Addresses of this machine, of private networks and link-local ones are refused, unless the operator
allows their network: a user must not reach through the gateway what is behind it. A URL is checked
when it is given. What counts is the check of each connection's address after name resolution: no
unusual spelling of an address and no change of a name gets around that.
"""

from __future__ import annotations

import asyncio
import importlib
import ipaddress
import re
import socket
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

from headgate.app.addresses import Address, Network, is_public, is_within, unmapped

_URL_MAX = 2048
_HOST_MAX = 253
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_AUTHORITY = re.compile(r"(\[[0-9a-f:.]+\]|[^\[\]:\s]+)(:[0-9]*)?", re.IGNORECASE)
SCHEME_PORTS = {"https": 443, "http": 80}

PUBLIC_PORTS = (443, 8443)
"""Ports of public addresses that may be asked, unless the operator names others."""

_NETWORK = (
    "this network is not allowed. To allow it, start the gateway with --push-allow (setting "
    "push_allow); push_deny goes first"
)
"""One text for both reasons: which of them holds tells of names that are not public."""


class TargetRefused(OSError):
    pass


class NameUnknown(OSError):
    pass


class Targets:
    def __init__(
        self,
        allowed: Sequence[Network] = (),
        denied: Sequence[Network] = (),
        ports: Sequence[int] = PUBLIC_PORTS,
    ) -> None:
        """Allow public addresses, and those of some networks, also by plain HTTP.

        In `allowed` networks every port is allowed; `ports` are those of public addresses. `denied`
        takes precedence.
        """
        self._allowed, self._denied, self._ports = allowed, denied, frozenset(ports)

    def check(self, url: str) -> SplitResult:
        """Check a URL without resolving its name, and return its parts. Raises TargetRefused."""
        if len(url) > _URL_MAX or not url.isascii() or not url.isprintable() or " " in url:
            raise TargetRefused(
                f"a URL must have at most {_URL_MAX} ASCII characters and no spaces"
            )
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError:
            raise TargetRefused("should be a URL") from None
        if parts.scheme not in SCHEME_PORTS or not host or parts.username is not None:
            raise TargetRefused("a URL must have the form https://host/path, without a user")
        if _AUTHORITY.fullmatch(parts.netloc) is None:
            raise TargetRefused("the URL has no valid host")
        is_tls, port = parts.scheme == "https", port or SCHEME_PORTS[parts.scheme]
        literal = _address_of(host)
        if literal is not None:
            self.check_address(literal, port, is_tls=is_tls)
        elif not _is_name(host):
            raise TargetRefused("the host is not a valid name")
        elif not self._allowed:
            self._check_public(port, is_tls=is_tls)
        return parts

    def check_address(self, address: Address, port: int, *, is_tls: bool) -> None:
        address = unmapped(address)
        if is_within(address, self._denied):
            raise TargetRefused(_NETWORK)
        if is_within(address, self._allowed):
            return
        if not is_public(address):
            raise TargetRefused(_NETWORK)
        self._check_public(port, is_tls=is_tls)

    def _check_public(self, port: int, *, is_tls: bool) -> None:
        if not is_tls:
            text = "plain HTTP is allowed only to networks of --push-allow (setting push_allow)"
            raise TargetRefused(text)
        if port not in self._ports:
            allowed = ", ".join(map(str, sorted(self._ports)))
            raise TargetRefused(f"this port is not allowed. Use {allowed} (setting push_ports)")


def _is_name(host: str) -> bool:
    host = host.removesuffix(".")
    return len(host) <= _HOST_MAX and all(map(_LABEL.fullmatch, host.split(".")))


def _address_of(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        pass
    try:  # 127.1 and 0x7f000001 are addresses to the system
        return ipaddress.ip_address(socket.inet_aton(host))
    except OSError:
        return None


LookUp = Callable[[str], Awaitable[Sequence[str]]]
"""Returns the addresses of a name."""

_LOOK_UP_S_MAX = 5.0
_ADDRESSES_MAX = 8
"""More of a name are not tried."""


class Addresses:
    def __init__(self, look_up: LookUp | None) -> None:
        self._look_up = look_up or _MachineLookUp()

    @classmethod
    def prepare(cls) -> None:
        """Load the library, which takes a while: most gateways do not need it."""
        importlib.import_module("aiodns")

    async def of(self, host: str) -> list[Address]:
        """Return the addresses of a host, at least one, or raise NameUnknown."""
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
        if isinstance(self._look_up, _MachineLookUp):
            await self._look_up.close()


class _MachineLookUp:
    """The resolver of the machine. It needs no thread, so none waits for a name server."""

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


class Places:
    """A number of slots.

    A holder gets another slot while it has fewer than are free. So a slow one takes half of them at
    most, several slow ones leave as much free as each of them has, and whoever has none gets the
    next (dynamic thresholds: Choudhury and Hahne, 1998).
    """

    def __init__(self, count: int) -> None:
        self._free = count
        self._held: Counter[Hashable] = Counter()
        self._count = count
        self._firsts: deque[_Wait] = deque()  # of those who have none
        self._others: deque[_Wait] = deque()

    def take(self, holder: Hashable, count: int = 1) -> bool:
        """Take several slots together if the holder may have them; more than all means all."""
        count = min(count, self._count)
        if not self._has_room(holder, count):
            return False
        self._free -= count
        self._held[holder] += count
        return True

    def give(self, holder: Hashable, count: int = 1) -> None:
        """Release slots that were taken together."""
        count = min(count, self._count)
        self._free += count
        self._held[holder] -= count
        if not self._held[holder]:
            del self._held[holder]
        self._wake()

    async def wait(self, holder: Hashable, count: int = 1) -> None:
        """Take several slots together, once the holder gets them."""
        while not self.take(holder, count):
            wait = _Wait(
                holder, min(count, self._count), asyncio.get_running_loop().create_future()
            )
            waiting = self._others if holder in self._held else self._firsts
            waiting.append(wait)
            try:
                await wait.coming
            except asyncio.CancelledError:
                with suppress(ValueError):
                    waiting.remove(wait)
                self._wake()  # what it would have taken is for the next
                raise
        self._wake()  # there may be enough for the next as well

    @asynccontextmanager
    async def within(self, holder: Hashable) -> AsyncIterator[None]:
        await self.wait(holder)
        try:
            yield
        finally:
            self.give(holder)

    def _has_room(self, holder: Hashable, count: int) -> bool:
        return count <= self._free and self._held.get(holder, 0) < self._free

    def _wake(self) -> None:
        for waiting in (self._firsts, self._others):
            while waiting and self._has_room(waiting[0].holder, waiting[0].wanted):
                wait = waiting.popleft()
                if not wait.coming.done():
                    wait.coming.set_result(None)
                    return


class _Wait(NamedTuple):
    holder: Hashable
    wanted: int
    coming: asyncio.Future[None]
