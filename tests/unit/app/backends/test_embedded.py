"""The engine here: late releases, consumers of an earlier life, and a store that answers badly."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from headgate.app.backends import embedded
from headgate.app.backends.embedded import (
    BucketOptions,
    EmbeddedBackend,
    EmbeddedOptions,
    open_embedded,
)
from headgate.app.backends.port import Holding
from headgate.app.backends.releasing import LateReleases, remove_stranded, temporary_name
from headgate.engine.bucket.replication import ReplicationOptions
from headgate.engine.entry import MIN_ID, EntryId
from headgate.engine.errors import GroupNotFound, Unavailable
from headgate.engine.requests import Request, groups
from headgate.engine.requests.deliveries import GiveBack
from headgate.engine.requests.streams import DeleteStream
from tests.virtual_time import in_virtual_time


@in_virtual_time
async def test_releases_are_tried_until_changes_are_accepted() -> None:
    asked: list[tuple[type[Request[Any]], bytes]] = []
    refusal: list[Exception] = [Unavailable("the lease is over")]

    async def perform(request: Any) -> Any:
        if refusal:
            raise refusal[0]
        asked.append((type(request), request.consumer))
        if request.consumer == b"ana":
            raise GroupNotFound(b"s", b"g", stream_exists=True)

    late = LateReleases(perform)
    running = asyncio.create_task(late.run())
    for name in (b"ana", b"ben", temporary_name(1)):
        holding = Holding(b"s", b"g", name, is_temporary=name not in (b"ana", b"ben"))
        late.release_later(holding, {EntryId(1, 0): 1})
    await asyncio.sleep(10)
    assert asked == []
    refusal.clear()
    await asyncio.sleep(2)
    assert asked == [
        *((GiveBack, name) for name in (b"ana", b"ben", temporary_name(1))),
        (groups.DeleteConsumer, temporary_name(1)),
    ]
    running.cancel()


@pytest.fixture
async def backend() -> AsyncIterator[EmbeddedBackend]:
    """Run an engine with streams, each with consumers of connections in a group."""
    backend = open_embedded(EmbeddedOptions(None))
    running = asyncio.create_task(backend.run())
    for number in range(20):
        stream = b"s%02d" % number
        await backend.perform(
            groups.CreateGroup(stream, b"g", groups.GroupStart(MIN_ID, None), True)
        )
        for name in (temporary_name(1), temporary_name(2), b"ana"):
            await backend.perform(groups.CreateConsumer(stream, b"g", name))
    yield backend
    running.cancel()


async def consumers_of(backend: EmbeddedBackend, stream: bytes) -> list[bytes]:
    return [each.name for each in await backend.perform(groups.ListConsumers(stream, b"g"))]


async def test_consumers_of_an_earlier_life_go(
    backend: EmbeddedBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    perform = backend.perform

    async def delete_before(request: Request[Any]) -> Any:
        if isinstance(request, groups.ListGroups) and request.stream == b"s04":
            await perform(DeleteStream(b"s04"))
        if isinstance(request, groups.ListConsumers) and request.stream == b"s05":
            await perform(groups.DestroyGroup(b"s05", b"g"))
        return await perform(request)

    monkeypatch.setattr(backend, "perform", delete_before)
    assert backend.leases is not None
    held = Holding(b"s03", b"g", temporary_name(2), is_temporary=True)
    await backend.leases.register(held)
    await remove_stranded(backend)
    assert await consumers_of(backend, b"s02") == await consumers_of(backend, b"s06") == [b"ana"]
    assert sorted(await consumers_of(backend, b"s03")) == [b"ana", temporary_name(2)]
    await backend.leases.unregister(held)
    await remove_stranded(backend)
    assert await consumers_of(backend, b"s03") == [b"ana"]


def test_a_store_that_does_not_answer_is_asked_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(embedded, "_PATIENCE_MS", 30)
    monkeypatch.setattr(embedded, "_PAUSE_S", 0.01)
    (tmp_path / "bucket").write_text("no directory")
    bucket = BucketOptions((tmp_path / "bucket").as_uri(), ReplicationOptions())
    options = EmbeddedOptions(tmp_path / "data", bucket=bucket)
    with pytest.raises(Unavailable, match=r"the bucket file:.*: Not a directory"):
        open_embedded(options)
    assert "bucket does not answer" in caplog.text
    (tmp_path / "bucket").unlink()
    open_embedded(options)
