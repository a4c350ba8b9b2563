"""Heads: what the head of a request says, read once for all requests that have the same.

A client sends the same head with every request to a stream, apart from ids that it makes up. To
read it takes as long as the rest of a small request, so heads that came before are known by their
bytes. Only whole requests that arrived at once are taken this way; all others are parsed.
"""

import re
from collections.abc import Mapping
from typing import Any

from starlette.types import Scope

HEADS_MAX = 256
_ONCE_MAX = 1024
"""Hashes of heads that came once: a head is known if it comes again before so many others."""

_END = b"\r\n\r\n"
_VARYING = re.compile(
    rb"\r\n(idempotency-key|traceparent|x-request-id): ([!-~]{1,128})(?=\r\n[^ \t])", re.IGNORECASE
)
"""Headers whose values clients make up for each request. They are no part of what is known."""
_PARSED = frozenset({b"expect", b"transfer-encoding", b"upgrade", b"x-request-id"})
"""Headers of requests that are parsed each time: they say how to go on, or the request's id."""
Headers = list[tuple[bytes, bytes]]
Sent = Mapping[bytes, bytes]


class Head:
    """The head of a request of HTTP/1.1 after which the connection stays open.

    It is in the scope as `head`, with the headers that vary as `varied`. A layer that changes the
    headers takes it out.
    """

    __slots__ = ("content_bytes", "derived", "scope", "sent")

    def __init__(self, scope: Scope, headers: Headers | None = None) -> None:
        """Take the scope of a request that was just parsed, and its headers that do not vary."""
        self.scope: dict[str, Any] = {**scope, "head": None}
        """Of the next request with this head, but for what its connection and its id are."""
        if headers is not None:
            self.scope["headers"] = headers
        self.sent: Sent = dict(reversed(self.scope["headers"]))
        self.content_bytes = int(self.sent.get(b"content-length", b"0"))
        self.derived: dict[object, Any] = {}
        """What depends on the head alone and never changes, by who has found it out."""


def sent_of(scope: Scope) -> Sent:
    """Return the headers of a request by their names, of repeated ones the first."""
    head: Head | None = scope.get("head")
    if head is None:
        return dict(reversed(scope["headers"]))
    varied: Headers | None = scope.get("varied")
    return head.sent if varied is None else {**head.sent, **dict(varied)}


class Heads:
    """The heads that came twice, the latest `HEADS_MAX` of those that were new then."""

    def __init__(self) -> None:
        self._by_text: dict[bytes, Head] = {}
        self._once: set[int] = set()  # hashes of those that came once, as most do

    def known(self, data: bytes) -> tuple[Head, bytes, Headers | None] | None:
        """Return the head of a whole request, if known, its body, and its headers that vary."""
        end = data.find(_END) + len(_END)
        text, varied = data[:end], None
        head = self._by_text.get(text)
        if head is None:
            text, varied = _without_varying(text)
            head = None if varied is None else self._by_text.get(text)
        if head is None or len(data) - end != head.content_bytes:
            return None
        if varied is not None and any(name in head.sent for name, _ in varied):
            return None  # of repeated headers the first counts
        return head, data[end:], varied

    def learn(self, data: bytes, scope: Scope) -> None:
        """Note the head of a whole request that was parsed, after which another one may come."""
        end = data.find(_END) + len(_END)
        text, varied = _without_varying(data[:end])
        if (seen := hash(text)) not in self._once:
            if len(self._once) == _ONCE_MAX:
                self._once.clear()
            self._once.add(seen)
            return
        headers: Headers = scope["headers"]
        if varied is not None:
            names = dict(varied)
            rest = [header for header in headers if header[0] not in names]
            if len(rest) + len(varied) < len(headers):
                return  # one of them comes in another spelling, too
            headers = rest
        if text in self._by_text or any(name in _PARSED for name, _ in headers):
            return
        head = Head(scope, headers)
        if len(data) - end == head.content_bytes:
            if len(self._by_text) == HEADS_MAX:
                del self._by_text[next(iter(self._by_text))]
            self._by_text[text] = head


def _without_varying(text: bytes) -> tuple[bytes, Headers | None]:
    """Return a head without the headers that vary, and these; None if there are none."""
    parts = _VARYING.split(text)
    if len(parts) == 1 or not text[:1].isalpha():  # a line end before the first line
        return text, None
    names = [name.lower() for name in parts[1::3]]
    if len(set(names)) < len(names):
        return text, None
    return b"".join(parts[::3]), list(zip(names, parts[2::3], strict=True))
