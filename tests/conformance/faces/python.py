# mypy: disable-error-code="override"
# A face does not look at options that it hands on to the port.
"""The Python client."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import wraps
from typing import Any, ClassVar, TypeVar, cast

import headgate
from headgate.client.entries import Draft
from headgate.client.problems import Problem
from headgate.client.shapes.settings import StreamConfig
from tests.conformance.faces.port import Answer, Port, Refused, results

T = TypeVar("T")


def shown(value: Any) -> Any:
    """Return the tuples of the client as mappings."""
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: shown(each) for name, each in value._asdict().items()}
    return [shown(each) for each in value] if isinstance(value, list) else value


def refusing(method: Callable[..., Awaitable[T]]) -> Callable[..., Awaitable[T]]:
    """Say a problem of the gateway as faces do."""

    @wraps(method)
    async def refused(*args: Any, **options: Any) -> T:
        try:
            return await method(*args, **options)
        except Problem as problem:
            raise Refused(problem.code) from problem

    return refused


class Python(Port):
    """`headgate.AsyncClient`."""

    untold: ClassVar = frozenset({"lag", "state", "pending", "deleted_ids", "gap"})

    def __init__(self, *place: Any) -> None:
        super().__init__(*place)
        self._client = headgate.AsyncClient(self.live.url, retry_s=0)

    async def close(self) -> None:
        await self._client.aclose()

    def does(self, operation: str) -> Callable[..., Awaitable[Any]]:
        return refusing(super().does(operation))

    async def append(self, stream: str, entries: Sequence[Answer], **options: Any) -> Answer:
        if "trim" in options:
            return await super().append(stream, entries, **options)
        of, given = self._client.stream(stream), _append_options(options)
        if len(entries) == 1:
            entry = dict(entries[0])
            return {"ids": [await of.append(entry.pop("fields"), **entry, **given)]}
        return {"ids": await of.append_many([Draft(**entry) for entry in entries], **given)}

    async def close_stream(
        self, stream: str, entries: Sequence[Answer] = (), **options: Any
    ) -> Answer:
        fields = entries[0]["fields"] if entries else None
        return await self._client.stream(stream).close(fields, **_append_options(options))

    async def read(self, stream: str, after: str = "0", **options: Any) -> Answer:
        if "filters" in options:
            options["filter"] = options.pop("filters")
        page = await self._client.stream(stream).read(after=after, **options)
        gap = None if page.gap is None else dict(zip(("from", "to"), page.gap, strict=True))
        return {**shown(page), "gap": gap}

    async def range(self, stream: str, order: str = "asc", **span: Any) -> Answer:
        page = await self._client.stream(stream).read(
            reverse=order == "desc", **{"start": "-"} | span
        )
        return {"entries": shown(page.entries)}

    async def delete(self, stream: str, ids: Sequence[str], **options: Any) -> Answer:
        if options:
            return await super().delete(stream, ids, **options)
        outcomes = await self._client.stream(stream).delete_entries(ids)
        return results(ids, [outcomes[each] for each in ids])

    async def trim(self, stream: str, **to: Any) -> Answer:
        if "references" in to:
            return await super().trim(stream, **to)
        return {"removed": await self._client.stream(stream).trim(**to)}

    async def create_stream(self, stream: str, **config: Any) -> Answer:
        return await self._client.stream(stream).create(cast(StreamConfig, config))

    async def update_stream(self, stream: str, **config: Any) -> Answer:
        return await self._client.stream(stream).update(cast(StreamConfig, config))

    async def describe_stream(self, stream: str) -> Answer:
        return await self._client.stream(stream).info()

    async def delete_stream(self, stream: str) -> None:
        await self._client.stream(stream).delete()

    async def create_group(self, stream: str, group: str, **new: Any) -> Answer:
        if not new.pop("create_stream", False):
            return await super().create_group(stream, group, **new)
        return await self._client.group(stream, group).create(**new)

    async def update_group(self, stream: str, group: str, **patch: Any) -> Answer:
        return await self._client.group(stream, group).update(**patch)

    async def describe_group(self, stream: str, group: str) -> Answer:
        return await self._client.group(stream, group).info()

    async def delete_group(self, stream: str, group: str) -> None:
        await self._client.group(stream, group).delete()

    async def consumers(self, stream: str, group: str) -> Answer:
        listed = self._client.group(stream, group).consumers()
        return {"consumers": [consumer async for consumer in listed]}

    async def delete_consumer(
        self, stream: str, group: str, by: str, pending: str = "release"
    ) -> Answer:
        of = self._client.group(stream, group)
        return {"pending": await of.delete_consumer(by, drop=pending == "drop")}

    async def take(self, stream: str, group: str, by: str, **options: Any) -> Answer:
        if "no_ack" in options:
            return await super().take(stream, group, by, **options)
        entries = await self._client.group(stream, group).read(by, **options)
        return {"entries": shown(entries)}

    async def _settle(
        self, what: str, stream: str, group: str, ids: Sequence[str], by: str | None, **how: Any
    ) -> Answer:
        settle = getattr(self._client.group(stream, group), what)
        outcomes: Mapping[str, str] = await settle(ids, consumer=by, **how)
        return results(ids, [outcomes[each] for each in ids])

    async def ack(self, stream: str, group: str, by: str | None = None, **settled: Any) -> Answer:
        return await self._settle("ack", stream, group, by=by, **settled)

    async def nack(self, stream: str, group: str, by: str | None = None, **settled: Any) -> Answer:
        return await self._settle("nack", stream, group, by=by, **settled)

    async def extend(self, stream: str, group: str, by: str, **settled: Any) -> Answer:
        return await self._settle("extend", stream, group, by=by, **settled)

    async def claim(
        self, stream: str, group: str, by: str, ids: Sequence[str], min_idle_ms: int = 0, **how: Any
    ) -> Answer:
        if how:
            return await super().claim(stream, group, by, ids, min_idle_ms, **how)
        of = self._client.group(stream, group)
        entries = shown(await of.claim(ids, consumer=by, min_idle_ms=min_idle_ms))
        return {"ids": [each["id"] for each in entries], "entries": entries}

    async def autoclaim(
        self, stream: str, group: str, by: str, min_idle_ms: int = 0, **how: Any
    ) -> Answer:
        if "just_id" in how:
            return await super().autoclaim(stream, group, by, min_idle_ms, **how)
        of = self._client.group(stream, group)
        claimed = await of.autoclaim(consumer=by, min_idle_ms=min_idle_ms, **how)
        entries = shown(claimed.entries)
        return {
            "ids": [each["id"] for each in entries],
            "entries": entries,
            "deleted_ids": claimed.deleted_ids,
            "next": claimed.next_start,
        }

    async def pending(self, stream: str, group: str, by: str | None = None, **span: Any) -> Answer:
        return {"pending": await self._client.group(stream, group).pending(consumer=by, **span)}

    async def sum_pending(self, stream: str, group: str) -> Answer:
        return await self._client.group(stream, group).pending_summary()

    async def redrive(self, stream: str, group: str, **wanted: Any) -> Answer:
        return {"results": await self._client.group(stream, group).redrive(**wanted)}


def _append_options(options: dict[str, Any]) -> dict[str, Any]:
    names = {"key": "idempotency_key", "last_id": "if_last_id"}
    return {names.get(name, name): value for name, value in options.items()}
