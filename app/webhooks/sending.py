"""Sending: a POST to a target, within bounds."""

from __future__ import annotations

import asyncio
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

from headgate.app.runtime.threads import WEBHOOKS
from headgate.app.webhooks.targets import TargetRefused, Targets

if TYPE_CHECKING:
    import httpx

ANSWER_BYTES_MAX = 65_536
"""More of an answer is not read."""

HOST_SENDS_MAX = 8
"""Requests to a host at a time: a host that hangs keeps no other from being asked."""

_SENDS_MAX = 250
"""Requests at a time: each has a connection."""


class TargetAnswer(NamedTuple):
    """The answer of a target."""

    status: int
    body: bytes


class Sender:
    """Sends requests. Redirects are not followed, and no proxy of the environment is used.

    Each request has a connection of its own. The client keeps connections by address, and behind an
    address there are many hosts: a connection that is kept would take the request for a host to
    another, whose certificate was checked when the connection was made.
    """

    def __init__(self, targets: Targets) -> None:
        """Send to these targets."""
        self._targets = targets
        self._http: httpx.AsyncClient | None = None
        self._opening = asyncio.Lock()
        self._bounds = _Bounds()

    async def post(
        self, url: str, body: bytes, headers: Mapping[str, str], *, within_s: float
    ) -> TargetAnswer:
        """Send a request, and return the answer.

        Args:
            url: of the target.
            body: of the request.
            headers: of the request.
            within_s: how long all of it may take.

        Raises:
            TargetRefused: the target is not allowed.
            OSError: nobody answers there (a `TimeoutError`: in time).
        """
        host = self._targets.check(url).hostname or ""
        async with asyncio.timeout(within_s), self._bounds.within(host):
            parts, address = await self._targets.resolve(url)
            async with self._opening:
                if self._http is None:
                    self._http = await WEBHOOKS.call_if_awaited(_client)
            import httpx  # noqa: PLC0415 - it is there by now

            literal = f"[{address}]" if ":" in address else address
            own = {"Host": parts.netloc, "Accept-Encoding": "identity", "Connection": "close"}
            request = self._http.build_request(
                "POST",
                httpx.URL(url).copy_with(host=literal),
                content=body,
                headers={**headers, **own},
                timeout=within_s,
                extensions={"sni_hostname": parts.hostname},
            )
            try:
                return await _answer(self._http, request)
            except httpx.HTTPError as error:
                raise OSError(f"{type(error).__name__}: {error}") from error

    async def close(self) -> None:
        """Close the connections."""
        if self._http is not None:
            await self._http.aclose()


class _Bounds:
    """The bounds of the requests at a time. Who waits for a host takes the place of no other."""

    def __init__(self) -> None:
        self._all = asyncio.Semaphore(_SENDS_MAX)
        self._hosts: dict[str, asyncio.Semaphore] = {}
        self._counts: Counter[str] = Counter()  # by host, with those that wait

    @asynccontextmanager
    async def within(self, host: str) -> AsyncIterator[None]:
        """Wait for a place, and keep it."""
        bound = self._hosts.setdefault(host, asyncio.Semaphore(HOST_SENDS_MAX))
        self._counts[host] += 1
        try:
            async with bound, self._all:
                yield
        finally:
            self._counts[host] -= 1
            if not self._counts[host]:
                del self._counts[host], self._hosts[host]


def _client() -> httpx.AsyncClient:
    """Return a client. Most gateways send nothing, and need neither it nor the certificates."""
    import httpx  # noqa: PLC0415

    return httpx.AsyncClient(
        trust_env=False,
        verify=ssl.create_default_context(),
        limits=httpx.Limits(max_keepalive_connections=0, max_connections=None),
    )


async def _answer(http: httpx.AsyncClient, request: httpx.Request) -> TargetAnswer:
    response = await http.send(request, stream=True)
    try:
        return TargetAnswer(response.status_code, await _start_of(response))
    finally:
        await response.aclose()


async def _start_of(response: httpx.Response) -> bytes:
    content = b""
    async for part in response.aiter_raw():  # packed, little may become much
        content += part
        if len(content) > ANSWER_BYTES_MAX:
            break
    return content[:ANSWER_BYTES_MAX]


__all__ = ["Sender", "TargetAnswer", "TargetRefused"]
