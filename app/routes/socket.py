"""Sockets: the two short-form WebSockets. They only pump; `session` knows the conversation."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Annotated, Literal, TypeVar

from fastapi import APIRouter, WebSocket, WebSocketDisconnect
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from app.dependencies import Gateway, check_at_most, gateway_of
from app.follow import RELEASED_ONLY, Credit, follow_group, follow_stream
from app.ids import parse_after
from app.names import check_name
from app.operation import check_path
from app.problems import GatewayError, Problem, make_problem, problem_of, validation_problem
from app.schemas import Gap
from app.session import (
    INSTANCE,
    Ack,
    AddCredit,
    Entries,
    Extend,
    Nack,
    NotAFrameError,
    ProblemFrame,
    Session,
    Settlement,
    Subscribed,
)
from app.subscriber import Subscriber
from engine.decisions.deliveries import GroupCursor, GroupRequest
from engine.entry import EntryId
from engine.errors import StreamError
from engine.limits import COUNT_MAX
from engine.replies import GroupRead, Outcome, StreamRead
from engine.views import From, StreamCursor

router = APIRouter(prefix="/v1/streams/{stream}")

SUBPROTOCOL = "headgate.v1.json"
RESTARTING = 1012
TRY_LATER = 1013
BAD_FRAME = 4400
GONE = 4404
SLOW = 4508

Read = TypeVar("Read", StreamRead, GroupRead)


class SocketQuery(BaseModel):
    """What the URL of a socket says about its subscription."""

    model_config = ConfigDict(extra="forbid")

    credit: Annotated[int, Field(ge=1)] = 64
    auto_credit: bool = True


class StreamSocketQuery(SocketQuery):
    """The same, of a stream."""

    after: str = "$"


class GroupSocketQuery(SocketQuery):
    """The same, of a group."""

    consumer: str | None = None
    claim_idle_ms: Annotated[int, Field(ge=0, le=COUNT_MAX)] = RELEASED_ONLY
    on_disconnect: Literal["release", "keep"] = "release"


@router.websocket("/ws")
async def stream_socket(socket: WebSocket, stream: str) -> None:
    """Send everything that comes after a cursor (XREAD BLOCK)."""
    conversation = await _Conversation.accepted(socket)
    async with conversation:
        check_path(socket)
        query = StreamSocketQuery.model_validate(dict(socket.query_params))
        name = check_name(stream, pointer="/path/stream")
        cursor = StreamCursor(name, parse_after(query.after, field="/query/after"))
        [now] = await conversation.backend.read([cursor], limit=1)
        if not isinstance(cursor.after, EntryId):  # from here on it is an id
            is_last = cursor.after is From.LAST and bool(now.entries)
            cursor = StreamCursor(name, now.entries[0].id.previous() if is_last else now.after)
        session = Session(is_group=False, auto_credit=query.auto_credit)
        credit = conversation.credit(query.credit)
        await conversation.send(Subscribed(position=str(cursor.after), gap=Gap.of(now.gap)))
        batches = follow_stream(conversation.backend, cursor, credit=credit, beat_ms=None)
        await conversation.run(session, credit, batches, session.deliver_read)


@router.websocket("/groups/{group}/ws")
async def group_socket(socket: WebSocket, stream: str, group: str) -> None:
    """Send what a consumer of a group is given (XREADGROUP BLOCK), and take its acks."""
    conversation = await _Conversation.accepted(socket)
    async with conversation:
        check_path(socket)
        query = GroupSocketQuery.model_validate(dict(socket.query_params))
        subscriber = _subscriber(conversation.gateway, stream, group, query)
        backend = conversation.backend
        info = await backend.group(subscriber.stream, subscriber.group)
        mine = await backend.consumer(subscriber.stream, subscriber.group, subscriber.consumer)
        session = Session(is_group=True, auto_credit=query.auto_credit)
        conversation.subscriber = subscriber
        credit = conversation.credit(query.credit)
        try:
            await conversation.send(
                Subscribed(
                    position=str(info.last_id),
                    consumer=subscriber.consumer.decode(),
                    pending=0 if mine is None else mine.pending_count,
                )
            )
            request = GroupRequest(
                subscriber.group,
                subscriber.consumer,
                [GroupCursor(subscriber.stream)],
                claim_idle_ms=query.claim_idle_ms,
            )
            batches = follow_group(backend, request, credit=credit, beat_ms=None)
            await conversation.run(session, credit, batches, session.deliver_group)
        finally:
            await subscriber.leave(backend, session.held)


class _CloseError(Exception):
    """The conversation is over, for a reason the client is told."""

    def __init__(self, code: int, problem: Problem | None = None) -> None:
        super().__init__(code)
        self.code = code
        self.problem = problem


class _Conversation:
    """One socket, from accept to close. As a context it turns what goes wrong into a close."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket
        self.gateway = gateway_of(socket)
        self.backend = self.gateway.backend
        self.subscriber: Subscriber | None = None
        self._connections = self.gateway.metrics.connections.labels("websocket")

    @classmethod
    async def accepted(cls, socket: WebSocket) -> "_Conversation":
        offered = socket.scope.get("subprotocols", [])
        await socket.accept(SUBPROTOCOL if SUBPROTOCOL in offered else None)
        return cls(socket)

    async def __aenter__(self) -> None:
        self._connections.inc()

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        self._connections.dec()
        ending = _ending(error)
        if ending is None:
            return isinstance(error, WebSocketDisconnect)
        with suppress(WebSocketDisconnect, TimeoutError):
            if ending.problem is not None:
                await self.send(ProblemFrame(problem=ending.problem))
            async with asyncio.timeout(1):
                await self._socket.close(ending.code)
        return True

    def credit(self, entries: int) -> Credit:
        most = self.gateway.limits.credit_max
        check_at_most(entries, most, pointer="/query/credit")
        return Credit(entries, most=most)

    async def send(self, frame: BaseModel) -> None:
        """Send a frame; a client that takes nothing for too long is given up."""
        try:
            async with asyncio.timeout(self.gateway.limits.send_ms_max / 1000):
                await self._socket.send_text(
                    frame.model_dump_json(exclude_none=True, by_alias=True)
                )
        except TimeoutError:
            raise _CloseError(SLOW) from None

    async def run(
        self,
        session: Session,
        credit: Credit,
        batches: AsyncIterator[Read],
        frame_of: Callable[[Read, int], Entries],
    ) -> None:
        """Pump both ways until one side ends."""
        pushing = asyncio.ensure_future(self._push(credit, batches, frame_of))
        listening = asyncio.ensure_future(self._listen(session, credit))
        try:
            await asyncio.wait({pushing, listening}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            pushing.cancel()
            listening.cancel()
            outcomes = await asyncio.gather(pushing, listening, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                raise outcome

    async def _push(
        self,
        credit: Credit,
        batches: AsyncIterator[Read],
        frame_of: Callable[[Read, int], Entries],
    ) -> None:
        delivered = self.gateway.metrics.delivered.labels("websocket")
        async for read in batches:
            frame = frame_of(read, credit.available)
            if frame.entries or frame.deleted_ids:
                credit.spend(len(frame.entries))
                delivered.inc(len(frame.entries))
                await self.send(frame)

    async def _listen(self, session: Session, credit: Credit) -> None:
        while True:
            message = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                raise WebSocketDisconnect(message.get("code", 1005))
            text = message.get("text")
            if text is None:
                raise _CloseError(BAD_FRAME, _bad_frame("frames are text, one JSON object each"))
            try:
                intent = session.receive(text)
            except NotAFrameError:
                raise _CloseError(BAD_FRAME, _bad_frame("a frame is one JSON object")) from None
            if isinstance(intent, AddCredit):
                credit.add(intent.entries)
            elif isinstance(intent, BaseModel):
                await self.send(intent)
            else:
                await self._settle(session, credit, intent)

    async def _settle(self, session: Session, credit: Credit, intent: Settlement) -> None:
        try:
            outcomes = await self._carry_out(intent)
        except StreamError as error:
            await self.send(ProblemFrame(rid=intent.rid, problem=problem_of(error, INSTANCE)))
            return
        answer, returned = session.settled(intent, outcomes)
        if returned:
            credit.add(returned)
        if answer is not None:
            await self.send(answer)

    async def _carry_out(self, intent: Settlement) -> list[Outcome]:
        assert self.subscriber is not None
        stream, group = self.subscriber.stream, self.subscriber.group
        consumer = self.subscriber.consumer
        match intent:
            case Ack(ids=ids):
                return await self.backend.ack(stream, group, ids, consumer=consumer)
            case Nack(ids=ids, mode=mode):
                return await self.backend.nack(stream, group, ids, mode=mode, consumer=consumer)
            case Extend(ids=ids):
                return await self.backend.extend(stream, group, ids, consumer=consumer)


def _subscriber(gateway: Gateway, stream: str, group: str, query: GroupSocketQuery) -> Subscriber:
    consumer = None
    if query.consumer is not None:
        consumer = check_name(query.consumer, pointer="/query/consumer")
    return Subscriber.named_or_new(
        check_name(stream, pointer="/path/stream"),
        check_name(group, pointer="/path/group"),
        consumer,
        releases=query.on_disconnect == "release",
        random=gateway.random,
    )


def _ending(error: BaseException | None) -> _CloseError | None:
    """Return how the client is told why its conversation ends; None if it need not be."""
    match error:
        case _CloseError():
            return error
        case ValidationError():
            found = error.errors(include_url=False, include_input=False)
            return _CloseError(BAD_FRAME, validation_problem(found, INSTANCE, prefix="/query"))
        case GatewayError():
            return _CloseError(BAD_FRAME, problem_of(error, INSTANCE))
        case StreamError():
            problem = problem_of(error, INSTANCE)
            return _CloseError(GONE if problem.status == 404 else _code_of(problem), problem)
    return None


def _code_of(problem: Problem) -> int:
    if problem.code == "draining":
        return RESTARTING
    return TRY_LATER if problem.retryable else BAD_FRAME


def _bad_frame(detail: str) -> Problem:
    return make_problem("malformed", detail, INSTANCE)
