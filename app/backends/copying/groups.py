"""Groups: copied with their consumers and pending entries, and later put into force."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from msgspec import UNSET

from headgate.app.backends.copying.contents import (
    DeliveryPage,
    StreamStore,
    ahead,
    consumers_of,
    groups_of,
    is_plain,
    pending_of,
)
from headgate.engine.config import NO_POLICY, Patch
from headgate.engine.entry import MIN_ID, EntryId
from headgate.engine.requests import Request
from headgate.engine.requests.deliveries import Claim, Nack, NackMode
from headgate.engine.requests.groups import (
    CreateConsumer,
    CreateGroup,
    DestroyGroup,
    GroupStart,
    UpdateGroup,
)


class _Delivery(NamedTuple):
    """The common facts of pending entries that one request makes."""

    consumer: bytes | None
    at_ms: int  # unix time
    delivery_count: int
    delay_ms: int


async def copy_groups(source: StreamStore, target: StreamStore, stream: bytes) -> None:
    """Make the groups of a stream in its copy, with what is pending; nothing is in force yet.

    Groups that the copy has already are made anew.
    """
    unfinished = [group.name async for group in groups_of(target, stream)]
    await _perform_all(target, [DestroyGroup(stream, group) for group in unfinished])
    async for group in groups_of(source, stream):
        await target.perform(CreateGroup(stream, group.name, GroupStart(MIN_ID)))
        async for consumers in consumers_of(source, stream, group.name):
            creations = [CreateConsumer(stream, group.name, each.name) for each in consumers]
            await _perform_all(target, creations)
        async for page in ahead(pending_of(source, stream, group.name)):
            if not is_plain(target):
                await _perform_all(target, [*_failures(stream, group.name, page)])
            await _perform_all(target, [*_deliveries(stream, group.name, page)])


def _failures(stream: bytes, group: bytes, page: DeliveryPage) -> Iterator[Request[Any]]:
    """Yield the requests that note the errors of a page, before its deliveries are made."""
    alike: dict[bytes, list[EntryId]] = defaultdict(list)
    for item in page.items:
        if item.last_error is not None:
            alike[item.last_error].append(item.id)
    for error, ids in alike.items():
        yield Nack(stream, group, ids, NackMode.SILENT, error=error, force=True, by_policy=False)


def _deliveries(stream: bytes, group: bytes, page: DeliveryPage) -> Iterator[Request[Any]]:
    """Yield the requests that make pending entries as they are on a page."""
    alike: dict[_Delivery, list[EntryId]] = defaultdict(list)
    for item in page.items:
        at_ms = page.at_ms - (item.idle_ms or 0)
        delivery = _Delivery(item.consumer, at_ms, item.delivery_count, item.delay_ms)
        if item.consumer is None:
            delivery = delivery._replace(at_ms=0)
        alike[delivery].append(item.id)
    for (consumer, at_ms, count, delay_ms), ids in alike.items():
        if consumer is None:
            yield Nack(
                stream,
                group,
                ids,
                NackMode.SILENT,
                delay_ms,
                retry_count=count,
                force=True,
                by_policy=False,
            )
        else:
            yield Claim(
                stream,
                group,
                consumer,
                ids,
                min_idle_ms=0,
                time_ms=at_ms,
                retry_count=count,
                force=True,
                just_id=True,
            )


async def place_groups(source: StreamStore, target: StreamStore, stream: bytes) -> None:
    """Set the positions of the groups of a copy, whose counters are right by now."""
    async for group in groups_of(source, stream):
        entries_read = UNSET if group.entries_read is None else group.entries_read
        await target.perform(UpdateGroup(stream, group.name, group.last_id, entries_read))


async def govern_groups(source: StreamStore, target: StreamStore, stream: bytes) -> None:
    """Set the policies of the groups of a copy: from now on they act."""
    async for group in groups_of(source, stream):
        if group.policy != NO_POLICY:
            patch = Patch.to(group.policy)
            await target.perform(UpdateGroup(stream, group.name, policy=patch))


async def _perform_all(store: StreamStore, requests: Sequence[Request[Any]]) -> None:
    """Carry out requests, which may be done at the same time."""
    await asyncio.gather(*map(store.perform, requests))
