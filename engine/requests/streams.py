"""Streams: list, describe, create, change, close, delete; their attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from headgate.engine.config import Patch, StreamConfig
from headgate.engine.entry import Draft, EntryId
from headgate.engine.replies import ClosedStream, Created, Observation, StreamDetail, StreamInfo
from headgate.engine.requests import Request
from headgate.engine.requests.idempotency import Idempotent
from headgate.engine.requests.keyspace import NameFilter

# Attributes: small values with names beside a stream, for what is layered over streams.
#
# They change together with an append, a close, or the creation of the stream, or by themselves.


SCHEMA = b"schema"
"""The attribute with the text of the schema that new entries have to match."""


class AttributeChange(NamedTuple):
    """A change of attributes; None stands for an attribute that is not there."""

    values: Mapping[bytes, bytes | None]
    expected: Mapping[bytes, bytes | None] = {}


class GetAttributes(Request[dict[bytes, bytes]], frozen=True):
    """Return those of the attributes that the stream has. StreamNotFound."""

    stream: bytes
    names: Sequence[bytes] | None = None  # None: all


class ChangeAttributes(Request[None], frozen=True):
    """Change attributes if others are as expected. StreamNotFound, StreamsChanged, LimitReached."""

    stream: bytes
    change: AttributeChange


class ListStreams(Request[list[StreamInfo]], frozen=True):
    """Describe up to `limit` streams whose names start with `prefix`, in byte order.

    `after` is the last name of the previous page; None: the beginning. Each page shows the state at
    its own moment. `only` says which streams the reply may show; None: all.
    """

    prefix: bytes = b""
    after: bytes | None = None
    limit: int = 100
    only: NameFilter | None = None


class Observe(Request[Observation], frozen=True):
    """Measure streams by name, after the name `after`, and the groups of each.

    At most `limit` streams and groups together are measured. The groups of the last stream may be
    left out in part. `only` says which streams are measured; None: all.
    """

    limit: int
    after: bytes | None = None
    only: NameFilter | None = None


class DescribeStream(Request[StreamInfo], frozen=True):
    """Describe a stream (XINFO STREAM). StreamNotFound."""

    stream: bytes


class DetailStream(Request[StreamDetail], frozen=True):
    """Describe a stream with entries, groups, consumers and pending entries (XINFO STREAM FULL).

    `count` bounds the entries, and the pending entries of each group; None means all.
    `size_bytes_max` bounds the entries as in `Range`. `described_max` bounds groups, consumers and
    pending entries together: all groups come first, then the contents of each group in order.
    StreamNotFound.
    """

    stream: bytes
    count: int | None = 10
    size_bytes_max: int | None = None
    described_max: int | None = None


class CreateStream(Request[Created[StreamInfo]], frozen=True):
    """Create an empty stream, unless it exists with the same configuration.

    A stream that exists keeps its attributes. `epoch` is given for the copy of a stream of another
    backend, so that readers can go on with it. StreamExists, LimitReached.
    """

    stream: bytes
    config: StreamConfig = StreamConfig()
    epoch: int | None = None  # None: a new one
    attributes: AttributeChange | None = None


class UpdateStream(Request[StreamInfo], frozen=True):
    """Change a stream's configuration (XCFGSET). Entries it no longer allows are removed at once.

    If many groups hold them, the reply does not wait until all are gone. StreamNotFound.
    """

    stream: bytes
    config: Patch[StreamConfig]


class CloseStream(Request[ClosedStream], frozen=True):
    """Append the last entries, if any, and let the stream take no others: both or neither.

    A stream that is closed stays closed. To close it again without entries changes nothing. With
    `idempotent`, so does a repeat under the same key. StreamNotFound without entries or
    `create_stream`; ClosedToAppends with entries; else as for `Add`.
    """

    stream: bytes
    drafts: Sequence[Draft] = ()
    idempotent: Idempotent | None = None
    create_stream: bool = True
    expected_last_id: EntryId | None = None
    closed_at_ms: int | None = None  # given for the copy of a stream of another backend
    attributes: AttributeChange | None = None
    is_new: bool = False  # the stream must not exist: it is made even without entries


class DeleteStream(Request[bool], frozen=True):
    """Delete a stream with its groups (DEL); false if there is none. Blocked readers fail."""

    stream: bytes
