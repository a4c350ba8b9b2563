"""Upgrade: declines offers of other protocols than WebSocket, and serves the request.

A server may ignore an offer (RFC 9110, 7.8). The parser does not: it takes what follows the header
for the other protocol, so a body would be lost. Java's own client offers HTTP/2 with every request.
So the request is parsed again, as one without the offer.
"""

from collections.abc import Iterable
from typing import Any

import httptools

_UPGRADE = b"upgrade"


def parser_for(protocol: Any) -> httptools.HttpRequestParser:
    """Return a parser as uvicorn makes it; one that has seen an offer parses nothing any more."""
    parser = httptools.HttpRequestParser(protocol)
    # What follows a request that is to be the last one is not answered, and that one is.
    parser.set_dangerous_leniencies(lenient_data_after_close=True)
    return parser


def has_offer(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Tell whether there is an offer. What follows a CONNECT is no HTTP, and it has none."""
    return any(name == _UPGRADE for name, _ in headers)


def without_offer(method: bytes, url: bytes, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return the header of a request again, without its offer."""
    lines = [method + b" " + url + b" HTTP/1.1"]
    lines += [name + b": " + value for name, value in headers if name != _UPGRADE]
    return b"\r\n".join([*lines, b"", b""])
