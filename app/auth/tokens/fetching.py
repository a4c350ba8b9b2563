"""Fetching: gets the key set of a URL, within bounds."""

import asyncio
from ipaddress import ip_address
from urllib.parse import urlsplit

import httpx

from headgate.app.auth.tokens.key_set import SIZE_BYTES_MAX, KeySetFault

FETCH_S_MAX = 10.0
_REDIRECTS_MAX = 3
_HEADERS = {
    "Accept": "application/jwk-set+json, application/json",
    "Accept-Encoding": "identity",  # what is compressed may become as large as it likes
    "User-Agent": "headgate",
}


class Fetcher:
    """Fetches one URL, again and again."""

    def __init__(self, url: str) -> None:
        """Get ready to fetch.

        Raises:
            KeySetFault: the URL is not `https://`, and not `http://` to this machine.
        """
        _check_url(url)
        self._url = url
        self._tls = httpx.create_ssl_context()  # it reads files: not in the event loop

    async def __call__(self) -> bytes:
        """Return what is there.

        Raises:
            KeySetFault: it cannot be had, in time and whole.
        """
        host = urlsplit(self._url).hostname or ""
        client = httpx.AsyncClient(
            headers=_HEADERS,
            timeout=FETCH_S_MAX,
            verify=self._tls,
            follow_redirects=True,
            max_redirects=_REDIRECTS_MAX,
            event_hooks={"request": [self._check_request]},
            trust_env=not is_loopback(host),  # a proxy has no part in what stays on this machine
        )
        try:
            async with client, asyncio.timeout(FETCH_S_MAX):
                return await _body_of(client, self._url)
        except TimeoutError:
            raise KeySetFault(f"no answer within {FETCH_S_MAX:.0f} s") from None
        except httpx.HTTPError as error:
            raise KeySetFault(str(error) or type(error).__name__) from None

    async def _check_request(self, request: httpx.Request) -> None:
        """Refuse a redirect that leads where the URL itself could not, or to another scheme."""
        _check_url(str(request.url))
        if request.url.scheme != urlsplit(self._url).scheme:
            raise KeySetFault(f"a redirect leads to {request.url.scheme}://")


async def _body_of(client: httpx.AsyncClient, url: str) -> bytes:
    async with client.stream("GET", url) as answer:
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
        raise KeySetFault("the URL of a key set is no URL") from None
    if not host or parts.scheme not in ("http", "https"):
        raise KeySetFault("the URL of a key set begins with https:// and a host")
    if parts.username is not None or parts.password is not None:
        raise KeySetFault("the URL of a key set has no name and password")
    if parts.scheme == "http" and not is_loopback(host):
        raise KeySetFault(f"http://{host} is not protected: a key set needs https://")


def shown(url: str) -> str:
    """Return a URL as it may stand in a log: without its query, which may have a secret."""
    return urlsplit(url)._replace(query="", fragment="").geturl()


def is_loopback(host: str) -> bool:
    """Tell whether a host is this machine for sure."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
