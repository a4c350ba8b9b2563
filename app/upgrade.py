"""Upgrade: an offer of another protocol than WebSocket is not taken, and the request is served.

A server may ignore an offer (RFC 9110, 7.8). The parser does not: it takes what follows the header
for the other protocol, so a body would be lost. Java's own client offers HTTP/2 with every request.
"""

from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class DecliningHttp(HttpToolsProtocol):
    """Uvicorn's HTTP/1.1, where a request with an offer is one without it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Parse with a parser that reads on where an offer was declined."""
        super().__init__(*args, **kwargs)
        self.parser = _Parser(self)
        self.declines = False

    def on_headers_complete(self) -> None:
        """Begin to answer, unless the request is parsed again."""
        self.declines = (  # it has an offer that is not taken
            self.parser.should_upgrade()
            and not self._should_upgrade()
            and any(name == b"upgrade" for name, _ in self.headers)  # CONNECT has none
        )
        if not self.declines:
            super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Have the whole request, unless it is parsed again."""
        if not self.declines:
            super().on_message_complete()

    def read_on(self, rest: bytes) -> None:
        """Parse the request again as one without the offer, then what came behind its header."""
        lines = [self.parser.get_method() + b" " + self.url + b" HTTP/1.1"]
        lines += [name + b": " + value for name, value in self.headers if name != b"upgrade"]
        self.parser = _Parser(self)
        self.parser.feed_data(b"\r\n".join([*lines, b"", b""]) + rest)


class _Parser(httptools.HttpRequestParser):
    def __init__(self, protocol: DecliningHttp) -> None:
        super().__init__(protocol)
        # What follows a request that is to be the last one is not answered, and that one is.
        self.set_dangerous_leniencies(lenient_data_after_close=True)
        self._http = protocol

    def feed_data(self, data: Any) -> None:
        try:
            super().feed_data(data)
        except httptools.HttpParserUpgrade as offer:
            if not self._http.declines:
                raise
            self._http.read_on(data[offer.args[0] :])
