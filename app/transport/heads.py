"""Heads: what the head of a request says, read once for all requests that have the same.

A client sends the same head with every request to a stream, apart from ids that it makes up. To
read it takes as long as the rest of a small request, so heads that came before are known by their
bytes. Only whole requests that arrived at once are taken this way; all others are parsed.
"""

from collections.abc import Mapping
from typing import Any

from starlette.types import Scope

HEADS_MAX = 256
_ONCE_MAX = 1024

_END = b"\r\n\r\n"
_PARSED = frozenset({b"expect", b"transfer-encoding", b"upgrade", b"x-request-id"})
"""Headers of requests that are parsed each time: they say how to go on, or are each time others."""

_OF_HEAD = ("http_version", "method", "raw_path", "path", "query_string", "headers")
"""What the head of a request says, in its scope."""

Sent = Mapping[bytes, bytes]


class Head:
    """The head of a request of HTTP/1.1 after which the connection stays open.

    It is in the scope as `head`. A layer that changes the headers takes it out.
    """

    __slots__ = ("content_bytes", "derived", "scope", "sent")

    def __init__(self, scope: Scope) -> None:
        """Take the scope of a request that was just parsed."""
        self.scope: Scope = {name: scope[name] for name in _OF_HEAD}
        self.sent: Sent = dict(reversed(scope["headers"]))
        self.content_bytes = int(self.sent.get(b"content-length", b"0"))
        self.derived: dict[object, Any] = {}
        """What depends on the head alone and never changes, by who has found it out."""


def sent_of(scope: Scope) -> Sent:
    """Return the headers of a request by their names, of repeated ones the first."""
    head: Head | None = scope.get("head")
    return dict(reversed(scope["headers"])) if head is None else head.sent


class Heads:
    """The heads that came twice, the latest `HEADS_MAX` of those that were new then."""

    def __init__(self) -> None:
        self._by_text: dict[bytes, Head] = {}
        self._once: set[int] = set()  # hashes of those that came once: most never come again

    def known(self, data: bytes) -> tuple[Head, bytes] | None:
        """Return the head of a whole request and its body, if it is one whose head is known."""
        end = data.find(_END) + len(_END)
        head = self._by_text.get(data[:end])
        if head is None or len(data) - end != head.content_bytes:
            return None
        return head, data[end:]

    def learn(self, data: bytes, scope: Scope) -> None:
        """Note the head of a whole request that was parsed, after which another one may come."""
        end = data.find(_END) + len(_END)
        text = data[:end]
        if (seen := hash(text)) not in self._once:
            if len(self._once) == _ONCE_MAX:
                self._once.clear()
            self._once.add(seen)
            return
        if any(name in _PARSED for name, _ in scope["headers"]):
            return
        head = Head(scope)
        if len(data) - end == head.content_bytes:
            if len(self._by_text) == HEADS_MAX:
                del self._by_text[next(iter(self._by_text))]
            self._by_text[text] = head
