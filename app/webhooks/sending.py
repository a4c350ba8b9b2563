"""Sending: a POST to a target, within bounds."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from headgate.app.runtime.threads import WEBHOOKS
from headgate.app.webhooks.targets import TargetRefused, Targets

if TYPE_CHECKING:
    import httpx

ANSWER_BYTES_MAX = 65_536
"""More of an answer is not read."""


class TargetAnswer(NamedTuple):
    """The answer of a target."""

    status: int
    body: bytes


class Sender:
    """Sends requests. Redirects are not followed, and no proxy of the environment is used."""

    def __init__(self, targets: Targets) -> None:
        """Send to these targets."""
        self._targets = targets
        self._http: httpx.AsyncClient | None = None
        self._opening = asyncio.Lock()

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
        parts, address = await self._targets.resolve(url)
        async with self._opening:
            if self._http is None:
                self._http = await WEBHOOKS.call_if_awaited(_client)
        import httpx  # noqa: PLC0415 - it is there by now

        host = f"[{address}]" if ":" in address else address
        place = httpx.URL(url).copy_with(host=host)
        request = self._http.build_request(
            "POST",
            place,
            content=body,
            headers={**headers, "Host": parts.netloc, "Accept-Encoding": "identity"},
            timeout=within_s,
            extensions={"sni_hostname": parts.hostname},
        )
        try:
            async with asyncio.timeout(within_s):
                response = await self._http.send(request, stream=True)
                try:
                    return TargetAnswer(response.status_code, await _start_of(response))
                finally:
                    await response.aclose()
        except httpx.HTTPError as error:
            raise OSError(f"{type(error).__name__}: {error}") from error

    async def close(self) -> None:
        """Close the connections."""
        if self._http is not None:
            await self._http.aclose()


def _client() -> httpx.AsyncClient:
    """Return a client. Most gateways send nothing, and need neither it nor the certificates."""
    import httpx  # noqa: PLC0415

    return httpx.AsyncClient(trust_env=False, verify=ssl.create_default_context())


async def _start_of(response: httpx.Response) -> bytes:
    content = b""
    async for part in response.aiter_raw():  # packed, little may become much
        content += part
        if len(content) > ANSWER_BYTES_MAX:
            break
    return content[:ANSWER_BYTES_MAX]


__all__ = ["Sender", "TargetAnswer", "TargetRefused"]
