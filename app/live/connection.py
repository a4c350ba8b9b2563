"""Connection: one WebSocket from welcome to close. It only pumps; `session` knows the conversation.

Every subscription is a task that follows its stream and sends what comes; one more listens to the
client. Whatever goes wrong in any of them ends the connection, with a close code that tells the
client whether to come back.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from fastapi import WebSocket, WebSocketDisconnect
from pydantic import BaseModel, ValidationError

from headgate.app.http.dependencies import Gateway
from headgate.app.live.follow import Credit, follow_group, follow_stream
from headgate.app.live.frames import (
    AppendedFrame,
    ConnectionLimits,
    Draining,
    ProblemFrame,
    Subscribed,
    Unsubscribed,
    Welcome,
)
from headgate.app.live.outbox import Outbox
from headgate.app.live.session import (
    INSTANCE,
    AckIntent,
    AppendIntent,
    CreditIntent,
    ExtendIntent,
    Intent,
    NackIntent,
    NotAFrameError,
    Session,
    Settlement,
    SubscribeIntent,
    UnsubscribeIntent,
)
from headgate.app.live.subscriber import Subscriber
from headgate.app.runtime.turns import Turn
from headgate.app.wire.encoding import EntriesText
from headgate.app.wire.problems import (
    GatewayError,
    Problem,
    make_problem,
    place_drafts,
    problem_of,
    validation_problem,
)
from headgate.app.wire.schemas.reads import Gap
from headgate.engine import errors
from headgate.engine.entry import Draft, EntryId
from headgate.engine.errors import StreamError
from headgate.engine.replies import GroupRead, Outcome, StreamRead, Takeover
from headgate.engine.requests import From, GroupCursor, GroupRequest, StreamCursor

log = logging.getLogger("headgate")

RESTARTING = 1012
TRY_LATER = 1013
FAILED = 1011
BAD_FRAME = 4400
GONE = 4404
SLOW = 4508

_APPENDS_MAX = 64
"""Appends of one connection that wait for the disk together, each no longer than"""
_APPEND_LENGTH_MAX = 4096
"""characters. A longer one waits for those before it, and those behind it wait for it."""

_BAD_FRAMES_MAX = 1000
"""Frames in a row that make no sense: then the connection ends. Each after the first"""
_BAD_FRAMES_FREE = 100
_BAD_FRAME_S = 0.002
"""costs its client so long."""

_GOODBYE_S_MAX = 1.0
"""How long the last words may take: less than the gateway takes to stop."""

Read = TypeVar("Read", StreamRead, GroupRead)


class CloseError(Exception):
    """The connection is over, for a reason the client is told."""

    def __init__(self, code: int, *last_words: BaseModel) -> None:
        """Keep the close code, and the frames to send before it."""
        super().__init__(code)
        self.code = code
        self.last_words = last_words


@dataclass
class _Feed:
    """What belongs to one subscription."""

    credit: Credit
    subscriber: Subscriber | None  # who reads, as a consumer of a group
    tasks: list[asyncio.Task[None]] = field(default_factory=list)


class Connection:
    """One socket."""

    def __init__(self, socket: WebSocket, gateway: Gateway) -> None:
        """Get ready to serve an accepted socket."""
        self._socket = socket
        self._gateway = gateway
        self._backend = gateway.backend
        limits = gateway.limits
        self._session = Session(
            subscriptions_max=limits.subscriptions_max,
            credit_max=limits.credit_max,
            batch_entries_max=limits.batch_entries_max,
        )
        self._feeds: dict[str, _Feed] = {}
        self._tasks: set[asyncio.Task[None]] = set()  # the parts of the conversation
        self._appends: deque[asyncio.Task[None]] = deque()  # begun, in order, and perhaps not over
        self._leaving: set[asyncio.Task[None]] = set()  # subscribers, which nothing interrupts
        self._outbox = Outbox(
            socket,
            patience_ms=limits.send_ms_max,
            on_stuck=lambda: self._end(CloseError(SLOW)),
        )
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._is_short = False  # made for one subscription: it ends with it

    async def serve(self, first: Callable[[], SubscribeIntent] | None = None) -> None:
        """Converse until one side ends; then what was not settled goes back or is kept.

        Args:
            first: says what to subscribe to, if the URL does.
        """
        self._is_short = first is not None
        self._spawn(lambda: self._converse(first))
        forget_end = self._gateway.at_connection_end(self._end_in_time)
        try:
            await self._ended
        except Exception as error:  # noqa: BLE001
            await self._say_goodbye(error)
        finally:
            forget_end()
            self._outbox.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            for sub in list(self._feeds):
                await self._leave(sub)
            await asyncio.gather(*self._leaving)
            # The error knows the frames it came through, with what was received, and they know us:
            # nothing of a connection shall wait for the garbage collector.
            del self._ended

    async def send(self, frame: BaseModel | str) -> None:
        """Send a frame; a client that takes nothing for too long is given up."""
        if isinstance(frame, BaseModel):
            frame = frame.model_dump_json(exclude_none=True, by_alias=True)
        await self._outbox.send(frame)

    def _end(self, error: Exception) -> None:
        """End the connection for this reason, unless there is one already."""
        if not self._ended.done():
            self._ended.set_exception(error)

    def _spawn(self, work: Callable[[], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
        """Run a part of the conversation; what it raises ends the connection.

        It is made when it begins: the conversation may be over before that.
        """

        async def run() -> None:
            try:
                await work()
            except Exception as error:  # noqa: BLE001
                self._end(error)

        return _kept(self._tasks, run())

    async def _converse(self, first: Callable[[], SubscribeIntent] | None) -> None:
        await self.send(self._welcome())
        if first is not None:
            await self._subscribe(first())
        await self._listen()

    def _welcome(self) -> Welcome:
        gateway = self._gateway
        return Welcome(
            connection=f"{gateway.random.getrandbits(64):016x}",
            heartbeat_ms=gateway.limits.ping_interval_ms,
            limits=ConnectionLimits(**gateway.limits.model_dump(include=_TOLD_LIMITS)),
        )

    async def _listen(self) -> None:
        bad_count = 0  # frames in a row
        while True:
            message = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                raise WebSocketDisconnect(message.get("code", 1005))
            text = message.get("text")
            if text is None:
                raise _bad_frame("frames are text, one JSON object each")
            try:
                intent = self._session.receive(text)
            except NotAFrameError:
                raise _bad_frame("a frame is one JSON object") from None
            if isinstance(intent, AppendIntent) and len(text) <= _APPEND_LENGTH_MAX:
                await self._appends_done(but=_APPENDS_MAX - 1)
                self._appends.append(self._spawn(partial(self._carry_out, intent)))
                bad_count = 0
                continue
            await self._appends_done()
            if len(text) > _APPEND_LENGTH_MAX:  # to read it may have taken a while
                await asyncio.sleep(0)
            bad_count = bad_count + 1 if isinstance(intent, ProblemFrame) else 0
            if isinstance(intent, BaseModel):
                await self.send(intent)
                await _slow_down(bad_count)
            else:
                await self._carry_out(intent)

    async def _appends_done(self, but: int = 0) -> None:
        """Wait until all appends are over that were begun, but for the newest so many."""
        while len(self._appends) > but:
            await self._appends.popleft()

    async def _carry_out(self, intent: Intent) -> None:
        match intent:
            case CreditIntent(sub, entries):
                self._feeds[sub].credit.add(entries)
                return
            case UnsubscribeIntent(rid, sub):
                await self._leave(sub)
                await self.send(Unsubscribed(rid=rid, sub=sub, reason="requested"))
                return
        about = None if isinstance(intent, AppendIntent) else intent.sub
        try:
            match intent:
                case SubscribeIntent():
                    await self._subscribe(intent)
                case AppendIntent(rid, stream, drafts):
                    ids = await self._append(stream, drafts)
                    self._gateway.metrics.appended.inc(len(ids))
                    await self.send(AppendedFrame(rid=rid, ids=list(map(str, ids))))
                case _:
                    await self._settle(intent)
        except errors.Draining:
            raise
        except (StreamError, GatewayError) as error:
            problem = problem_of(error, INSTANCE)
            await self.send(ProblemFrame(rid=intent.rid, sub=about, problem=problem))

    async def _append(self, stream: bytes, drafts: list[Draft]) -> list[EntryId]:
        try:
            return await self._backend.add(stream, drafts)
        except StreamError as error:
            place_drafts(error, lambda index: ("entries", index))
            raise

    async def _settle(self, intent: Settlement) -> None:
        outcomes = await self._outcomes(intent)
        answer, returned = self._session.settled(intent, outcomes)
        if returned:  # the subscription is still there
            self._feeds[intent.sub].credit.add(returned)
        if answer is not None:
            await self.send(await _joined(answer))

    async def _outcomes(self, intent: Settlement) -> list[Outcome]:
        subscriber = self._feeds[intent.sub].subscriber
        assert subscriber is not None
        names, consumer = (subscriber.stream, subscriber.group), subscriber.consumer
        match intent:
            case AckIntent(ids=ids):
                return await self._backend.ack(*names, ids, consumer=consumer)
            case NackIntent(ids=ids, mode=mode, delay_ms=delay_ms):
                return await self._backend.nack(
                    *names, ids, mode=mode, delay_ms=delay_ms, consumer=consumer
                )
            case ExtendIntent(ids=ids):
                return await self._backend.extend(*names, ids, consumer=consumer)

    async def _subscribe(self, intent: SubscribeIntent) -> None:
        credit = Credit(intent.credit, most=self._gateway.limits.credit_max)
        if intent.group is None:
            await self._follow_stream(intent, credit)
        else:
            await self._follow_group(intent, intent.group, credit)

    async def _follow_stream(self, intent: SubscribeIntent, credit: Credit) -> None:
        cursor = StreamCursor(intent.stream, intent.after)
        [now] = await self._backend.read([cursor], limit=1)
        if not isinstance(cursor.after, EntryId):  # from here on it is an id
            is_last = cursor.after is From.LAST and bool(now.entries)
            after = now.entries[0].id.previous() if is_last else now.after
            cursor = StreamCursor(intent.stream, after)
        self._session.opened(intent)
        self._feeds[intent.sub] = feed = _Feed(credit, None)
        await self.send(
            Subscribed(
                rid=intent.rid, sub=intent.sub, position=str(cursor.after), gap=Gap.of(now.gap)
            )
        )
        batches = follow_stream(self._backend, cursor, credit=credit, beat_ms=None)
        frame_of = partial(self._session.deliver_read, intent.sub)
        feed.tasks.append(self._spawn(lambda: self._push(intent.sub, credit, batches, frame_of)))

    async def _follow_group(self, intent: SubscribeIntent, group: bytes, credit: Credit) -> None:
        names = intent.stream, group
        info = await self._backend.group(*names)
        subscriber = Subscriber.named_or_new(
            *names,
            intent.consumer,
            on_disconnect=intent.on_disconnect,
            policy=info.policy,
            random=self._gateway.random,
        )
        mine = await self._backend.consumer(*names, subscriber.consumer)
        self._session.opened(intent)
        self._feeds[intent.sub] = feed = _Feed(credit, subscriber)
        feeds = self._gateway.claim_feed
        if feeds is not None:
            claims = feeds.claims(*names, subscriber.consumer)
            feed.tasks.append(self._spawn(lambda: self._tell_claims(intent.sub, claims)))
        await self.send(
            Subscribed(
                rid=intent.rid,
                sub=intent.sub,
                position=str(info.last_id),
                consumer=subscriber.consumer.decode(),
                pending=0 if mine is None else mine.pending_count,
            )
        )
        request = GroupRequest(
            group,
            subscriber.consumer,
            [GroupCursor(subscriber.stream)],
            claim_idle_ms=intent.claim_idle_ms,
            claim_released=True,
            no_ack=intent.no_ack,
        )
        batches = follow_group(self._backend, request, credit=credit, beat_ms=None)
        frame_of = partial(self._session.deliver_group, intent.sub)
        feed.tasks.append(self._spawn(lambda: self._push(intent.sub, credit, batches, frame_of)))

    async def _push(
        self,
        sub: str,
        credit: Credit,
        batches: AsyncIterator[Read],
        frame_of: Callable[[Read, int], EntriesText | None],
    ) -> None:
        """Send what a subscription is given, until it ends."""
        delivered = self._gateway.metrics.delivered.labels("websocket")
        try:
            async for read in batches:
                frame = frame_of(read, credit.available)
                if frame is not None:
                    credit.spend(frame.entry_count)
                    delivered.inc(frame.entry_count)
                    await self.send(frame.text)
                state = self._session.state_after(sub, read, credit.available)
                if state is not None:
                    await self.send(state)
        except errors.Draining:
            raise
        except StreamError as error:
            if self._is_short:
                raise
            problem = problem_of(error, INSTANCE)
            await self.send(ProblemFrame(sub=sub, problem=problem))
            is_gone = isinstance(error, errors.NotFound)
            await self._leave(sub)
            await self.send(Unsubscribed(sub=sub, reason="gone" if is_gone else "failed"))

    async def _leave(self, sub: str) -> None:
        """End a subscription: what it was sent and has not settled goes back, or is kept.

        If the caller is cancelled, either nothing has been done yet, or all of it will be.
        """
        feed = self._feeds[sub]
        others = [task for task in feed.tasks if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        if others:
            await asyncio.gather(*others, return_exceptions=True)
        del self._feeds[sub]
        held = self._session.closed(sub)
        if feed.subscriber is not None:
            leaving = _kept(self._leaving, feed.subscriber.leave(self._backend, held))
            await asyncio.shield(leaving)

    async def _tell_claims(
        self, sub: str, claims: AbstractAsyncContextManager[AsyncIterator[Takeover]]
    ) -> None:
        async with claims as takeovers:
            async for takeover in takeovers:
                frame = self._session.taken_over(sub, takeover.counts, takeover.by)
                if frame is not None:
                    await self.send(frame)

    def _end_in_time(self) -> None:
        self._end(errors.Draining())

    async def _say_goodbye(self, error: Exception) -> None:
        ending = self._ending_of(error)
        if ending is None:
            return
        with suppress(WebSocketDisconnect, RuntimeError, TimeoutError, CloseError):
            async with asyncio.timeout(_GOODBYE_S_MAX):
                for frame in ending.last_words:
                    await self.send(frame)
        with suppress(WebSocketDisconnect, RuntimeError, TimeoutError):
            async with asyncio.timeout(_GOODBYE_S_MAX):
                await self._socket.close(ending.code)

    def _ending_of(self, error: Exception) -> CloseError | None:
        """Return how the client is told why the connection ends; None if it is gone already."""
        match error:
            case CloseError():
                return error
            case errors.Draining():
                after_ms = self._gateway.reconnect_after_ms()
                return CloseError(RESTARTING, Draining(reconnect_after_ms=after_ms))
            case ValidationError():
                found = error.errors(include_url=False, include_input=False)
                problem = validation_problem(found, INSTANCE, prefix="/query")
                return CloseError(BAD_FRAME, ProblemFrame(problem=problem))
            case GatewayError() | StreamError():
                problem = problem_of(error, INSTANCE)
                return CloseError(_code_of(problem), ProblemFrame(problem=problem))
            case WebSocketDisconnect() | RuntimeError():  # starlette: sent after the close
                return None
        log.error("connection failed", exc_info=error)
        return CloseError(FAILED)


def _kept(tasks: set[asyncio.Task[None]], work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """Start a task that is kept in `tasks` while it runs."""
    task = asyncio.create_task(work)
    tasks.add(task)
    task.add_done_callback(tasks.discard)
    return task


_TOLD_LIMITS = set(ConnectionLimits.model_fields)


def _code_of(problem: Problem) -> int:
    if problem.status == 404:
        return GONE
    return TRY_LATER if problem.retryable else BAD_FRAME


async def _slow_down(bad_count: int) -> None:
    """Let a client wait that sent so many frames in a row that made no sense."""
    if bad_count > _BAD_FRAMES_MAX:
        raise _bad_frame(f"{bad_count} frames in a row made no sense")
    if bad_count > _BAD_FRAMES_FREE:
        await asyncio.sleep(_BAD_FRAME_S)


async def _joined(parts: Iterable[str]) -> str:
    """Return a frame that comes in parts; to make it may take a while."""
    turn, found = Turn(), []
    for part in parts:
        found.append(part)
        await turn.pause()
    return "".join(found)


def _bad_frame(detail: str) -> CloseError:
    return CloseError(BAD_FRAME, ProblemFrame(problem=make_problem("malformed", detail, INSTANCE)))
