"""Attributes of a stream change with an append, a close or a creation, or not at all."""

import pytest

from headgate.app.backends.port import Backend
from headgate.engine.entry import MIN_ID
from headgate.engine.errors import LimitReached, StreamNotFound, StreamsChanged
from headgate.engine.limits import ATTRIBUTES_BYTES_MAX
from headgate.engine.requests.entries import Add
from headgate.engine.requests.keyspace import CopyStream, RenameStream
from headgate.engine.requests.streams import (
    AttributeChange,
    ChangeAttributes,
    CreateStream,
    DeleteStream,
    GetAttributes,
)
from tests.contract.calls import S, drafts, read_after

KIND, WHO = b"kind", b"who\x00\xff"
R, T, U = b"{x}r", b"{x}t", b"{x}u"  # in one slot of a cluster


async def attributes(backend: Backend, stream: bytes = S) -> dict[bytes, bytes]:
    return await backend.perform(GetAttributes(stream))


async def test_they_change_with_an_append_if_they_are_as_expected(backend: Backend) -> None:
    await backend.perform(Add(S, drafts(1), attributes=AttributeChange({KIND: b"1"}, {KIND: None})))
    change = AttributeChange({KIND: b"2", WHO: b"me"}, {KIND: b"1"})
    await backend.perform(Add(S, drafts(2), attributes=change))
    with pytest.raises(StreamsChanged):
        await backend.perform(Add(S, drafts(3), attributes=change))
    assert await read_after(backend, MIN_ID) == [1, 2]
    assert await attributes(backend) == {KIND: b"2", WHO: b"me"}


async def test_they_go_with_their_stream_and_its_name(backend: Backend) -> None:
    await backend.perform(CreateStream(R, attributes=AttributeChange({KIND: b"a"})))
    await backend.perform(CopyStream(R, T, replace=False))
    await backend.perform(RenameStream(R, U))
    assert await attributes(backend, U) == await attributes(backend, T) == {KIND: b"a"}
    await backend.perform(DeleteStream(T))
    with pytest.raises(StreamNotFound):
        await attributes(backend, T)
    await backend.perform(CreateStream(T))
    assert await attributes(backend, T) == {}


async def test_there_are_bounds(backend: Backend) -> None:
    await backend.perform(CreateStream(S, attributes=AttributeChange({KIND: b"a"})))
    large = AttributeChange({WHO: bytes(ATTRIBUTES_BYTES_MAX)})
    with pytest.raises(LimitReached):
        await backend.perform(ChangeAttributes(S, large))
    with pytest.raises(LimitReached):
        await backend.perform(Add(S, drafts(1), attributes=large))
    assert await attributes(backend) == {KIND: b"a"}
    assert await read_after(backend, MIN_ID) == []
