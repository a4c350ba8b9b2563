"""Attributes of a stream change with an append, a close or a creation, or not at all."""

import pytest

from headgate.app.backends.port import Backend
from headgate.engine.entry import MIN_ID
from headgate.engine.errors import LimitReached, StreamExists, StreamNotFound, StreamsChanged
from headgate.engine.limits import ATTRIBUTES_BYTES_MAX
from headgate.engine.requests.attributes import AttributeChange, ChangeAttributes, GetAttributes
from headgate.engine.requests.dumps import CopyStream
from headgate.engine.requests.entries import Add
from headgate.engine.requests.keyspace import RenameStream
from headgate.engine.requests.streams import CloseStream, CreateStream, DeleteStream, DescribeStream
from tests.contract.calls import S, drafts, read_after

KIND, WHO = b"kind", b"who\x00\xff"
R, T, U = b"{x}r", b"{x}t", b"{x}u"  # in one slot of a cluster


async def attributes(backend: Backend, stream: bytes = S) -> dict[bytes, bytes]:
    return await backend.perform(GetAttributes(stream))


async def test_a_stream_is_created_with_attributes_once(backend: Backend) -> None:
    made = await backend.perform(
        CreateStream(S, attributes=AttributeChange({KIND: b"a", WHO: b"\xff\x00"}))
    )
    assert made.is_new
    again = await backend.perform(CreateStream(S, attributes=AttributeChange({KIND: b"b"})))
    assert not again.is_new
    assert await attributes(backend) == {KIND: b"a", WHO: b"\xff\x00"}
    assert await backend.perform(GetAttributes(S, [WHO, b"none"])) == {WHO: b"\xff\x00"}


async def test_they_change_with_an_append_if_they_are_as_expected(backend: Backend) -> None:
    await backend.perform(Add(S, drafts(1), attributes=AttributeChange({KIND: b"1"}, {KIND: None})))
    change = AttributeChange({KIND: b"2", WHO: b"me"}, {KIND: b"1"})
    await backend.perform(Add(S, drafts(2), attributes=change))
    with pytest.raises(StreamsChanged):
        await backend.perform(Add(S, drafts(3), attributes=change))
    assert await read_after(backend, MIN_ID) == [1, 2]
    assert await attributes(backend) == {KIND: b"2", WHO: b"me"}


async def test_one_that_is_none_goes(backend: Backend) -> None:
    await backend.perform(CreateStream(S, attributes=AttributeChange({KIND: b"", WHO: b"me"})))
    await backend.perform(ChangeAttributes(S, AttributeChange({WHO: None, b"x": None})))
    assert await attributes(backend) == {KIND: b""}
    with pytest.raises(StreamsChanged):
        await backend.perform(ChangeAttributes(S, AttributeChange({KIND: None}, {KIND: None})))
    await backend.perform(ChangeAttributes(S, AttributeChange({KIND: None}, {KIND: b""})))
    assert await attributes(backend) == {}


async def test_an_append_may_need_a_new_stream(backend: Backend) -> None:
    change = AttributeChange({KIND: b"a"})
    await backend.perform(Add(S, drafts(1), attributes=change, is_new=True))
    with pytest.raises(StreamExists):
        await backend.perform(Add(S, drafts(2), attributes=change, is_new=True))
    assert await read_after(backend, MIN_ID) == [1]


@pytest.mark.parametrize("count", [0, 2])
async def test_a_stream_may_be_made_closed(backend: Backend, count: int) -> None:
    numbers = list(range(1, count + 1))
    change = AttributeChange({KIND: b"a"})
    close = CloseStream(S, drafts(*numbers), attributes=change, is_new=True)
    assert len((await backend.perform(close)).ids) == count
    with pytest.raises(StreamExists):
        await backend.perform(close)
    assert await read_after(backend, MIN_ID) == numbers
    assert await attributes(backend) == {KIND: b"a"}
    info = await backend.perform(DescribeStream(S))
    assert info.closed_at_ms is not None


async def test_they_change_with_a_close(backend: Backend) -> None:
    await backend.perform(CreateStream(S, attributes=AttributeChange({KIND: b"a"})))
    with pytest.raises(StreamsChanged):
        await backend.perform(CloseStream(S, attributes=AttributeChange({}, {KIND: b"b"})))
    info = await backend.perform(DescribeStream(S))
    assert info.closed_at_ms is None
    change = AttributeChange({KIND: b"b"}, {KIND: b"a"})
    await backend.perform(CloseStream(S, drafts(1), attributes=change))
    assert await attributes(backend) == {KIND: b"b"}
    await backend.perform(CloseStream(S, attributes=AttributeChange({KIND: b"c"})))
    assert await attributes(backend) == {KIND: b"c"}


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
