"""Comparison: whether a stream and its copy are the same, by digests of all that they have."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from headgate.app.backends.copying.contents import (
    StreamStore,
    ahead,
    consumers_of,
    entries_of,
    groups_of,
    is_plain,
    pending_of,
    trimmed_id,
)
from headgate.engine.entry import MIN_ID, Entry, EntryId
from headgate.engine.requests.attributes import GetAttributes
from headgate.engine.requests.streams import DescribeStream

_DIGEST_BYTES = 16

_NOT_PLAIN = {"epoch", "trimmed_through"}
"""Facts that a server of Redis does not keep."""


class Fingerprint(NamedTuple):
    """The facts that a stream and its copy have in common. Digests are hexadecimal.

    Times are left out, as they go on while they are read, and so are configuration and policies,
    which a copy gets last.
    """

    epoch: int
    length: int
    last_id: EntryId
    max_deleted_id: EntryId
    trimmed_through: EntryId | None
    entries_added: int
    entries: str
    groups: str
    consumers: str
    pending: str

    def differences(self, other: Fingerprint) -> list[str]:
        """Return the names of the fields in which this differs from another one."""
        pairs = zip(self._fields, self, other, strict=True)
        return [name for name, mine, theirs in pairs if mine != theirs]


async def fingerprint_of(store: StreamStore, stream: bytes) -> Fingerprint:
    """Return the fingerprint of a stream; all of it is read.

    Raises:
        StreamNotFound: the stream does not exist.
    """
    info = await store.perform(DescribeStream(stream))
    entries, groups, consumers, pending = (_Digest() for _ in range(4))
    async for page in ahead(entries_of(store, stream)):
        entries.add_entries(page)
    async for group in groups_of(store, stream):
        read = b"" if group.entries_read is None else b"%d" % group.entries_read
        groups.add((group.name, str(group.last_id).encode(), read))
        async for holders in consumers_of(store, stream, group.name):
            for holder in holders:
                consumers.add((group.name, holder.name, b"%d" % holder.pending_count))
        async for deliveries in pending_of(store, stream, group.name):
            for item in deliveries.items:
                owner = () if item.consumer is None else (item.consumer,)
                numbers = b"%s %d" % (str(item.id).encode(), item.delivery_count)
                pending.add((group.name, numbers, *owner))
    return Fingerprint(
        info.epoch,
        info.length,
        info.last_id,
        info.max_deleted_id,
        trimmed_id(info),
        info.entries_added,
        *(digest.value() for digest in (entries, groups, consumers, pending)),
    )


async def differences(source: StreamStore, target: StreamStore, stream: bytes) -> list[str]:
    """Return the differences between a copy and its stream; nothing if they are the same.

    Raises:
        StreamNotFound: one of the two does not exist.
    """
    theirs, ours = await asyncio.gather(
        fingerprint_of(source, stream), fingerprint_of(target, stream)
    )
    names = ours.differences(theirs)
    if is_plain(source) or is_plain(target):
        names = [name for name in names if name not in _NOT_PLAIN]
    if is_plain(source) and theirs.max_deleted_id == MIN_ID:
        # An old server does not know it, though entries are gone: the copy does.
        names = [name for name in names if name != "max_deleted_id"]
    return [name.replace("_", " ") for name in names]


async def settings_of(store: StreamStore, stream: bytes) -> str:
    """Return a digest of a stream's configuration, close and attributes, and of its policies.

    Raises:
        StreamNotFound: the stream does not exist.
    """
    info = await store.perform(DescribeStream(stream))
    settings = _Digest()
    settings.add([msgspec.json.encode((info.config, info.closed_at_ms))])
    attributes = await store.perform(GetAttributes(stream))
    settings.add([part for name in sorted(attributes) for part in (name, attributes[name])])
    async for group in groups_of(store, stream):
        settings.add([group.name, msgspec.json.encode(group.policy)])
    return settings.value()


class _Digest:
    """A digest of rows of bytes. The ends of parts and rows count."""

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=_DIGEST_BYTES)

    def add(self, row: Iterable[bytes]) -> None:
        """Add the next row."""
        parts = [part for text in row for part in (b"%d:" % len(text), text)]
        self._hash.update(b"".join([*parts, b"\n"]))

    def add_entries(self, entries: Iterable[Entry]) -> None:
        """Add a row for each entry."""
        self._hash.update(b"".join(map(_packed, entries)))

    def value(self) -> str:
        """Return the digest of all rows so far."""
        return self._hash.hexdigest()


_packed = msgspec.msgpack.Encoder().encode  # which tells where an entry ends
