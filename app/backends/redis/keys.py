"""The keys of streams and of their side keys at a server.

The *key* of a stream is a prefix and the name of the stream. What the server does not keep about a
stream itself, such as the policies of its groups, is in *side keys*. A stream and its side keys are
in one slot of a cluster, so that a function can change all of them in one step. They share a *hash
tag* for this: the part of a key in braces, or the whole key if it has no such part.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from redis.crc import key_slot

from headgate.app.backends.redis.address import SIDE, check_prefix

_TAG = re.compile(rb"\{([^}]+)\}")
_ESCAPED = re.compile(rb"[{}]|%(?=7B|7D|25|68)")
_ESCAPE = re.compile(rb"%(7B|7D|25|68)")

_RECENT_MAX = 2_000
"""Names of streams whose keys are remembered. To make them takes 3 µs."""


class StreamKeys(NamedTuple):
    """The key of a stream, and the two parts of its side keys: `head + kind + tail`."""

    key: bytes
    head: bytes
    tail: bytes
    slot: int  # of a cluster, in which the stream and its side keys are

    def side(self, kind: bytes, group: bytes | None = None) -> bytes:
        key = self.head + kind + self.tail
        return key if group is None else key + b":" + group


class KeyNames:
    """Converts between names of streams and keys; raises ValueError as `check_prefix`."""

    def __init__(self, prefix: bytes) -> None:
        check_prefix(prefix)
        self.prefix = prefix
        self.head = SIDE + prefix
        self._recent: dict[bytes, StreamKeys] = {}

    def of(self, stream: bytes) -> StreamKeys:
        """Return the keys of a stream.

        Braces in the name are kept if they make a hash tag, so that users can put several streams
        into one slot. All others are escaped as in URLs, because side keys could not share their
        slot.
        """
        keys = self._recent.get(stream)
        if keys is None:
            if len(self._recent) >= _RECENT_MAX:
                self._recent.clear()
            keys = self._recent[stream] = self._with_tail(self.prefix + self._escape(stream))
        return keys

    def of_writer(self, writer: bytes) -> StreamKeys:
        """Return the keys of a bulk writer; no stream has its key."""
        return self._with_tail(self.head + b"writer:" + self._escape(writer))

    def of_schedules(self) -> StreamKeys:
        """Return the keys of all schedules; no stream has their key."""
        return self._with_tail(self.head + b"schedules")

    def name(self, key: bytes) -> bytes:
        name = key[len(self.prefix) :]
        return _ESCAPE.sub(_unescape, name) if b"%" in name else name

    def pattern(self, prefix: bytes = b"") -> bytes:
        """Return a glob (SCAN MATCH) for streams with this prefix; others may match, too."""
        part = re.split(rb"[{}%]", prefix)[0]  # what comes behind may be escaped
        if SIDE.startswith(self.prefix + part):
            part = b""  # the first byte may be escaped
        return re.sub(rb"[*?\[\]\\]", rb"\\\g<0>", self.prefix + part) + b"*"

    def is_stream(self, key: bytes) -> bool:
        return not key.startswith(SIDE)

    def side_index(self, kind: bytes) -> bytes:
        return self.head + kind

    def tracked(self) -> list[bytes]:
        """Return the prefixes of the keys whose changes wake blocked reads.

        No prefix contains another one, as CLIENT TRACKING demands.
        """
        kinds = [self.head + kind for kind in (b"released", b"claims")]
        return [self.prefix, *(key for key in kinds if not key.startswith(self.prefix))]

    def _with_tail(self, key: bytes) -> StreamKeys:
        if b"{" not in key:
            return StreamKeys(key, self.head, b":{%b}" % key, key_slot(key))
        tag = _TAG.search(key)
        assert tag is not None  # all other braces are escaped
        tail = b":{%b}=%d:%b" % (tag[1], len(key), key)
        return StreamKeys(key, self.head, tail, key_slot(key))

    def _escape(self, stream: bytes) -> bytes:
        if not self.prefix and stream.startswith(SIDE):
            return b"%68" + _ESCAPED.sub(_percent, stream[1:])
        if b"{" not in stream and b"}" not in stream and b"%" not in stream:
            return stream
        opening = stream.find(b"{")
        closing = stream.find(b"}", opening + 1)
        if opening >= 0 and closing > opening + 1 and b"%" not in stream:
            return stream  # a hash tag
        return _ESCAPED.sub(_percent, stream)


def _percent(escaped: re.Match[bytes]) -> bytes:
    return b"%%%02X" % escaped[0][0]


def _unescape(escaped: re.Match[bytes]) -> bytes:
    return bytes([int(escaped[1], 16)])
