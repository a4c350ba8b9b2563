"""Get the key set of a URL, within bounds.

The URL is an operator's, but a name leads where its DNS server says, and a redirect where the
issuer says. So each connection is checked before anything is sent on it, and a redirect stays at
its host.
"""

import asyncio
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx

from headgate.app.addresses import address_of, is_inward, is_this_machine
from headgate.app.auth.tokens.verifying_key import SIZE_BYTES_MAX, KeySetFault

FETCH_S_MAX = 10.0
_REDIRECTS_MAX = 3
_CONNECTED = "connection.connect_tcp.complete"  # an event of httpcore; see `_check_peer`

_HEADERS = {
    "Accept": "application/jwk-set+json, application/json",
    "Accept-Encoding": "identity",  # what is compressed may become as large as it likes
    "User-Agent": "headgate",
}


class Fetcher:
    def __init__(self, url: str) -> None:
        """Take a URL; raises KeySetFault unless it is `https://`, or `http://` to this machine."""
        _check_url(url)
        self._url = url
        self._tls = httpx.create_ssl_context()  # it reads files: not in the event loop

    async def __call__(self) -> bytes:
        """Return the content of the URL; raises KeySetFault unless it arrives whole and in time."""
        host = urlsplit(self._url).hostname or ""
        client = httpx.AsyncClient(
            headers=_HEADERS,
            timeout=FETCH_S_MAX,
            verify=self._tls,
            follow_redirects=True,
            max_redirects=_REDIRECTS_MAX,
            event_hooks={"request": [self._check_request]},
            trust_env=not is_this_machine(
                host
            ),  # a proxy has no part in what stays on this machine
        )
        try:
            async with client, asyncio.timeout(FETCH_S_MAX):
                return await self._body_of(client)
        except TimeoutError:
            raise KeySetFault(f"no answer within {FETCH_S_MAX:.0f} s") from None
        except httpx.HTTPError as error:
            raise KeySetFault(str(error) or type(error).__name__) from None

    async def _check_request(self, request: httpx.Request) -> None:
        _check_url(str(request.url))
        own, to = httpx.URL(self._url), request.url
        if (to.scheme, to.host, to.port) != (own.scheme, own.host, own.port):
            raise KeySetFault(f"the URL redirects to {to.scheme}://{to.host}: set that URL instead")

    async def _look(self, event: str, facts: Mapping[str, Any]) -> None:
        if event == _CONNECTED:
            try:
                self._check_peer(facts["return_value"])
            except KeySetFault:
                await facts["return_value"].aclose()
                raise

    def _check_peer(self, stream: Any) -> None:
        """Refuse a connection by its actual address: raises KeySetFault if no issuer has it."""
        address = address_of(str(stream.get_extra_info("server_addr")[0]))
        if address is None or is_inward(address):
            raise KeySetFault(
                f"the host has the address {address}, which is not allowed for an issuer"
            )
        if self._url.lower().startswith("http:") and not address.is_loopback:
            raise KeySetFault(f"the host has the address {address}: its key set needs https://")

    async def _body_of(self, client: httpx.AsyncClient) -> bytes:
        async with client.stream("GET", self._url, extensions={"trace": self._look}) as answer:
            self._check_peer(answer.extensions["network_stream"])  # if it was no such event
            return await _body_of(answer)


async def _body_of(answer: httpx.Response) -> bytes:
    if answer.status_code != httpx.codes.OK:
        raise KeySetFault(f"the answer has status {answer.status_code}")
    if answer.headers.get("content-encoding", "identity") != "identity":
        raise KeySetFault("the answer is compressed")
    body = bytearray()
    async for part in answer.aiter_raw():
        body += part
        if len(body) > SIZE_BYTES_MAX:
            raise KeySetFault(f"the key set is larger than {SIZE_BYTES_MAX} bytes")
    return bytes(body)


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        raise KeySetFault("the URL of a key set is invalid") from None
    if not host or parts.scheme not in ("http", "https"):
        raise KeySetFault("the URL of a key set must have https:// and a host")
    if parts.username is not None or parts.password is not None:
        raise KeySetFault("the URL of a key set must not have a name or a password")
    if parts.scheme == "http" and not is_this_machine(host):
        raise KeySetFault(f"http://{host} is not encrypted: a key set needs https://")
    address = address_of(host)
    if address is not None and is_inward(address):
        raise KeySetFault(f"{host} is an address that is not allowed for an issuer")


def shown(url: str) -> str:
    """Return a URL for the log: without its query, which may have a secret."""
    return urlsplit(url)._replace(query="", fragment="").geturl()
