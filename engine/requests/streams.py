"""Streams: list, describe, create, change, delete."""

from __future__ import annotations

from headgate.engine.config import StreamConfig, StreamPatch
from headgate.engine.replies import Created, StreamDetail, StreamInfo
from headgate.engine.requests import Request


class ListStreams(Request[list[StreamInfo]], frozen=True):
    """Describe up to `limit` streams whose names start with `prefix`, in byte order.

    `after` is the last name of the page before; None starts at the beginning. Each stream is
    described as it is at some moment of the call.
    """

    prefix: bytes = b""
    after: bytes | None = None
    limit: int = 100


class DescribeStream(Request[StreamInfo], frozen=True):
    """Describe a stream (XINFO STREAM).

    Raises:
        StreamNotFound: there is none.
    """

    stream: bytes


class DetailStream(Request[StreamDetail], frozen=True):
    """Describe a stream with entries, groups, consumers and pending entries (XINFO STREAM FULL).

    `count` bounds the entries, and the pending entries of each group; None: all. `size_bytes_max`
    bounds the entries as in `Range`; `described_max` bounds groups, consumers and pending entries
    together: the groups come first, then what is in the first of them.

    Raises:
        StreamNotFound: there is none.
    """

    stream: bytes
    count: int | None = 10
    size_bytes_max: int | None = None
    described_max: int | None = None


class CreateStream(Request[Created[StreamInfo]], frozen=True):
    """Create an empty stream, unless it is there with this configuration.

    Raises:
        StreamExists: it is there with another configuration.
        LimitReached: there are as many streams as there may be.
    """

    stream: bytes
    config: StreamConfig = StreamConfig()


class UpdateStream(Request[StreamInfo], frozen=True):
    """Change a stream's configuration; entries that it no longer allows go at once (XCFGSET).

    Raises:
        StreamNotFound: there is none.
    """

    stream: bytes
    config: StreamPatch


class DeleteStream(Request[bool], frozen=True):
    """Delete a stream with its groups (DEL); false if there is none. Its blocked readers fail."""

    stream: bytes
