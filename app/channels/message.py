"""Message: what is published on a channel, on its way to those who listen."""

from __future__ import annotations

from functools import cached_property
from typing import Final, Literal

import msgspec

from headgate.app.wire.structure import is_too_nested

PLACE_BYTES: Final = 200
"""Memory of a message or a subscription besides its texts, about."""

Kind = Literal["message", "presence", "settled"]
"""What it is about: what somebody has published, who has come, changed or left, and that this is
known of all now."""


class ChannelMessage:
    """A message on its way; what is sent of it is made once for all who get the same."""

    def __init__(self, channel: bytes, data: bytes, kind: Kind = "message") -> None:
        self.channel = channel
        self.data = data
        self.kind = kind
        self.texts: dict[object, str] = {}  # frames and events, by what else is in them
        self.pushes: dict[object, bytes] = {}  # the same for Redis clients

    @cached_property
    def json(self) -> bytes:
        """Return the data as JSON in one line; what is not JSON, or hard to read, is a string."""
        if not _is_json(self.data) or is_too_nested(self.data):
            return msgspec.json.encode(self.data.decode(errors="replace"))
        return self.data.translate(ONE_LINE).strip()

    @property
    def size_bytes(self) -> int:
        return len(self.data) + len(self.channel) + PLACE_BYTES


def _is_json(data: bytes) -> bool:
    try:
        msgspec.json.decode(data, type=msgspec.Raw)
        data.decode()
    except (ValueError, RecursionError):
        return False
    return True


ONE_LINE = bytes(ord(" ") if byte in b"\r\n\t" else byte for byte in range(256))
"""Line ends outside of strings are blanks to JSON, and end an event to EventSource."""
