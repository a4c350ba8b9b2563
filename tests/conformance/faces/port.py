"""The port as a face: every operation of the cases. The other faces do some of them their own way.

An operation takes what a request of the HTTP interface says, and returns what its answer does.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar

from headgate.app.wire.descriptions import consumer_wire, group_wire, pending_wire, stream_wire
from headgate.app.wire.encoding import delivery_wire, entries_wire, entry_wire, gap_wire
from headgate.app.wire.problems import code_of
from headgate.app.wire.schemas.entries import EntryInput
from headgate.app.wire.schemas.settings import StreamConfig
from headgate.app.wire.schemas.streams import GroupInput, GroupPatch
from headgate.engine.entry import Draft, EntryId
from headgate.engine.errors import GroupNotFound, StreamError, StreamNotFound
from headgate.engine.replies import Claimed, GroupInfo, GroupRead
from headgate.engine.requests import Request
from headgate.engine.requests.deliveries import (
    Ack,
    Autoclaim,
    Claim,
    Extend,
    GroupCursor,
    ListPending,
    Nack,
    NackMode,
    ReadGroup,
    Redrive,
    SumPending,
)
from headgate.engine.requests.entries import (
    Add,
    Delete,
    From,
    Range,
    Read,
    References,
    StreamCursor,
    Trim,
    TrimTo,
)
from headgate.engine.requests.groups import (
    CreateConsumer,
    CreateGroup,
    DeleteConsumer,
    DescribeGroup,
    DestroyGroup,
    ListConsumers,
)
from headgate.engine.requests.idempotency import Idempotent
from headgate.engine.requests.streams import (
    CloseStream,
    CreateStream,
    DeleteStream,
    DescribeStream,
    UpdateStream,
)
from tests.api.conftest import Live

Answer = Mapping[str, Any]


class Refused(Exception):
    """An operation was refused: the code of the problem, or what the face says in its place."""


def id_of(text: str) -> EntryId:
    return EntryId.parse({"-": "0", "+": f"{2**64 - 1}-{2**64 - 1}"}.get(text, text))


def cursor_of(text: str) -> EntryId | From:
    return From(text) if text in ("$", "+") else id_of(text)


def trim_to(min_id: str | None = None, references: str = "keep", **bounds: Any) -> TrimTo:
    low = None if min_id is None else id_of(min_id)
    return TrimTo(min_id=low, references=References(references), **bounds)


def results(ids: Sequence[str], outcomes: Sequence[Any]) -> Answer:
    """Return the outcome of each id, as answers do."""
    return {"results": [{"id": i, "outcome": str(o)} for i, o in zip(ids, outcomes, strict=True)]}


class Port:
    """The port: requests of a backend."""

    untold: ClassVar[frozenset[str]] = frozenset()
    """Parts of answers that the face does not have."""

    lacks: ClassVar[frozenset[str]] = frozenset()
    """Abilities that cases need, and the face does not have."""

    def __init__(self, live: Live) -> None:
        self.live = live

    async def close(self) -> None:
        """End its connections."""

    @classmethod
    def own(cls) -> frozenset[str]:
        """Return the operations that the face does itself."""
        faces = [kind for kind in cls.__mro__ if issubclass(kind, Port)]
        own = faces if cls is Port else faces[:-1]
        return frozenset(name for kind in own for name in vars(kind) if name in vars(Port))

    def does(self, operation: str) -> Callable[..., Awaitable[Any]]:
        """Return an operation."""
        method: Callable[..., Awaitable[Any]] = getattr(self, operation)
        return method

    def is_problem(self, code: str, refused: Refused) -> bool:
        """Tell whether the face has refused an operation with this problem."""
        return str(refused) == code

    async def _do(self, request: Request[Any]) -> Any:
        try:
            return await self.live.gateway.backend.perform(request)
        except StreamError as error:
            raise Refused(code_of(error)) from error

    # Streams and entries

    async def append(
        self,
        stream: str,
        entries: Sequence[Answer],
        key: str | None = None,
        last_id: str | None = None,
        create_stream: bool = True,
        trim: Mapping[str, Any] | None = None,
    ) -> Answer:
        drafts = [EntryInput(**entry).to_draft() for entry in entries]
        added = await self._do(
            Add(
                stream.encode(),
                drafts,
                _key_of(key, drafts),
                create_stream,
                None if last_id is None else id_of(last_id),
                trim_to(**trim) if trim else None,
            )
        )
        return {"ids": list(map(str, added.ids))}

    async def close_stream(
        self,
        stream: str,
        entries: Sequence[Answer] = (),
        key: str | None = None,
        last_id: str | None = None,
        create_stream: bool = True,
    ) -> Answer:
        drafts = [EntryInput(**entry).to_draft() for entry in entries]
        expected = None if last_id is None else id_of(last_id)
        key_ = _key_of(key, drafts)
        closed = await self._do(CloseStream(stream.encode(), drafts, key_, create_stream, expected))
        return {"ids": list(map(str, closed.ids)), "closed_at_ms": closed.closed_at_ms}

    async def read(
        self, stream: str, after: str = "0", limit: int = 100, wait_ms: int = 0, filters: Any = None
    ) -> Answer:
        text = None if filters is None else json.dumps(filters)
        cursors = [StreamCursor(stream.encode(), cursor_of(after))]
        [read] = await self._do(Read(cursors, limit, wait_ms=wait_ms, filters=text))
        read = read.placed()
        return {
            "entries": entries_wire(read),
            "next_after": str(read.next_after),
            "last_id": str(read.last_id),
            "gap": gap_wire(read.gap),
            "closed_at_ms": read.closed_at_ms,
        }

    async def range(
        self, stream: str, start: str = "-", end: str = "+", order: str = "asc", limit: int = 100
    ) -> Answer:
        wanted = id_of(start), id_of(end), limit
        entries = await self._do(Range(stream.encode(), *wanted, reverse=order == "desc"))
        return {"entries": [entry_wire(entry) for entry in entries]}

    async def delete(self, stream: str, ids: Sequence[str], references: str = "keep") -> Answer:
        gone = Delete(stream.encode(), list(map(id_of, ids)), References(references))
        return results(ids, await self._do(gone))

    async def trim(self, stream: str, **to: Any) -> Answer:
        return {"removed": await self._do(Trim(stream.encode(), trim_to(**to)))}

    async def create_stream(self, stream: str, **config: Any) -> Answer:
        config_ = StreamConfig(**config).to_engine()
        created = await self._do(CreateStream(stream.encode(), config_))
        return stream_wire(created.info)

    async def update_stream(self, stream: str, **config: Any) -> Answer:
        patch = StreamConfig(**config).to_patch()
        return stream_wire(await self._do(UpdateStream(stream.encode(), patch)))

    async def describe_stream(self, stream: str) -> Answer:
        return stream_wire(await self._do(DescribeStream(stream.encode())))

    async def delete_stream(self, stream: str) -> None:
        if not await self._do(DeleteStream(stream.encode())):
            raise Refused(code_of(StreamNotFound(stream.encode())))

    # Groups and consumers

    async def create_group(self, stream: str, group: str, **new: Any) -> Answer:
        form = GroupInput(**new)
        to = form.to_start(), form.create_stream, form.to_policy()
        created = await self._do(CreateGroup(stream.encode(), group.encode(), *to))
        return _described(created.info)

    async def update_group(self, stream: str, group: str, **patch: Any) -> Answer:
        request = GroupPatch(**patch).to_request(stream.encode(), group.encode())
        return _described(await self._do(request))

    async def describe_group(self, stream: str, group: str) -> Answer:
        return _described(await self._do(DescribeGroup(stream.encode(), group.encode())))

    async def delete_group(self, stream: str, group: str) -> None:
        if not await self._do(DestroyGroup(stream.encode(), group.encode())):
            raise Refused(code_of(GroupNotFound(stream.encode(), group.encode())))

    async def consumers(self, stream: str, group: str) -> Answer:
        infos = await self._do(ListConsumers(stream.encode(), group.encode()))
        return {"consumers": list(map(consumer_wire, infos))}

    async def create_consumer(self, stream: str, group: str, by: str) -> None:
        await self._do(CreateConsumer(stream.encode(), group.encode(), by.encode()))

    async def delete_consumer(
        self, stream: str, group: str, by: str, pending: str = "release"
    ) -> Answer:
        gone = DeleteConsumer(stream.encode(), group.encode(), by.encode(), pending == "release")
        if (held := await self._do(gone)) is None:
            raise Refused("not_found")
        return {"pending": held}

    # Deliveries

    async def take(
        self,
        stream: str,
        group: str,
        by: str,
        limit: int = 10,
        wait_ms: int = 0,
        after: str = ">",
        claim_idle_ms: int | None = None,
        no_ack: bool = False,
        ack: Sequence[str] = (),
    ) -> Answer:
        read: GroupRead
        [read] = await self._do(
            ReadGroup(
                group.encode(),
                by.encode(),
                [GroupCursor(stream.encode(), None if after == ">" else id_of(after))],
                limit,
                claim_idle_ms,
                no_ack,
                claim_released=True,
                wait_ms=wait_ms,
                acked=list(map(id_of, ack)),
            )
        )
        gone = [str(each.id) for each in read.deliveries if each.fields is None]
        live = [each for each in read.deliveries if each.fields is not None]
        return {
            "entries": list(map(delivery_wire, live)),
            "lag": read.lag,
            "pending": read.pending_count,
            "state": read.state,
            **({"deleted_ids": gone} if gone else {}),
        }

    async def ack(
        self, stream: str, group: str, ids: Sequence[str], by: str | None = None
    ) -> Answer:
        consumer = None if by is None else by.encode()
        request = Ack(stream.encode(), group.encode(), list(map(id_of, ids)), consumer)
        return results(ids, await self._do(request))

    async def nack(
        self,
        stream: str,
        group: str,
        ids: Sequence[str],
        by: str | None = None,
        mode: str = "fail",
        delay_ms: int | None = None,
        error: str | None = None,
    ) -> Answer:
        why = NackMode(mode), delay_ms, None if error is None else error.encode()
        consumer = None if by is None else by.encode()
        request = Nack(stream.encode(), group.encode(), list(map(id_of, ids)), *why, consumer)
        return results(ids, await self._do(request))

    async def extend(self, stream: str, group: str, ids: Sequence[str], by: str) -> Answer:
        request = Extend(stream.encode(), group.encode(), list(map(id_of, ids)), by.encode())
        return results(ids, await self._do(request))

    async def claim(
        self, stream: str, group: str, by: str, ids: Sequence[str], min_idle_ms: int = 0, **how: Any
    ) -> Answer:
        of = stream.encode(), group.encode(), by.encode()
        return _claimed(await self._do(Claim(*of, list(map(id_of, ids)), min_idle_ms, **how)))

    async def autoclaim(
        self,
        stream: str,
        group: str,
        by: str,
        min_idle_ms: int = 0,
        start: str = "0",
        limit: int = 100,
        just_id: bool = False,
    ) -> Answer:
        of = stream.encode(), group.encode(), by.encode()
        claimed = await self._do(Autoclaim(*of, min_idle_ms, id_of(start), limit, just_id))
        return {**_claimed(claimed), "next": str(claimed.next_start)}

    async def pending(
        self,
        stream: str,
        group: str,
        start: str = "-",
        end: str = "+",
        limit: int = 100,
        by: str | None = None,
    ) -> Answer:
        span = id_of(start), id_of(end), limit, None if by is None else by.encode()
        items = await self._do(ListPending(stream.encode(), group.encode(), *span))
        return {"pending": list(map(pending_wire, items))}

    async def sum_pending(self, stream: str, group: str) -> Answer:
        total = await self._do(SumPending(stream.encode(), group.encode()))
        return {
            "count": total.total,
            "min_id": None if total.min_id is None else str(total.min_id),
            "max_id": None if total.max_id is None else str(total.max_id),
            "consumers": [{"name": n.decode(), "pending": held} for n, held in total.consumers],
        }

    async def redrive(
        self, stream: str, group: str, ids: Sequence[str] | None = None, limit: int = 100
    ) -> Answer:
        ids_ = None if ids is None else list(map(id_of, ids))
        redriven = await self._do(Redrive(stream.encode(), group.encode(), ids_, limit))
        return results([str(each.entry_id) for each in redriven], [e.outcome for e in redriven])


def _key_of(key: str | None, drafts: Sequence[Draft]) -> Idempotent | None:
    digest = repr([draft.fields for draft in drafts]).encode()
    return None if key is None else Idempotent(b"", key.encode(), digest)


def _claimed(claimed: Claimed) -> Answer:
    return {
        "ids": [str(each.id) for each in claimed.deliveries],
        "entries": list(map(delivery_wire, claimed.deliveries)),
        "deleted_ids": list(map(str, claimed.deleted_ids)),
    }


def _described(group: GroupInfo) -> Answer:
    return group_wire(group, None, now_ms=0)
