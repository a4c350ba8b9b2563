"""One WebSocket from welcome to close; does the I/O of a `session`.

One task listens to the client. Each subscription has a task that follows it and sends what comes.
An error in any of them ends the connection, with a close code that tells the client whether to
reconnect.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import ExitStack, aclosing, suppress
from functools import partial
from itertools import islice
from typing import Any

from fastapi import WebSocketDisconnect

from headgate.app.auth.access import Access
from headgate.app.auth.grants import Verb
from headgate.app.auth.metering import appended_in
from headgate.app.auth.principal import Forbidden, Need, Unauthenticated
from headgate.app.auth.usage import Patience, Usage
from headgate.app.backends.port import Ability
from headgate.app.channels.member import Place
from headgate.app.channels.message import ChannelMessage
from headgate.app.gateway.gateway import Gateway
from headgate.app.live.channel_subscription import ChannelSubscription
from headgate.app.live.followed import (
    AtEnd,
    Ended,
    Followed,
    GroupBatch,
    GroupsBatch,
    Heard,
    PatternBatch,
    RowsBatch,
    StreamBatch,
)
from headgate.app.live.frames.client import BadFramesError
from headgate.app.live.group_subscription import GroupSubscription
from headgate.app.live.intents import (
    AckIntent,
    AppendIntent,
    AuthIntent,
    CommitIntent,
    CreditIntent,
    ExtendIntent,
    Intent,
    ListenIntent,
    NackIntent,
    PatternAfter,
    PresenceIntent,
    PresenceWish,
    PublishIntent,
    Settlement,
    SubscribeIntent,
    UnsubscribeIntent,
)
from headgate.app.live.outbox import BROKEN, FAILED, NORMAL, SLOW, CloseError, Outbox, ending_of
from headgate.app.live.pattern_group_subscription import PatternGroupSubscription
from headgate.app.live.session import Session, no_subscription
from headgate.app.live.subscriber import Subscriber
from headgate.app.live.subscription import (
    Credit,
    PatternSubscription,
    StreamSubscription,
    Subscription,
)
from headgate.app.live.table_subscription import TableSubscription
from headgate.app.runtime.connections import OpenConnection
from headgate.app.transport.exchange import unsent_bytes
from headgate.app.transport.intake import Socket
from headgate.app.transport.proxies import client_address
from headgate.app.transport.scopes import ServedScope, request_id_of
from headgate.app.wire.problems import FrameTooLarge, GatewayError, cut_off
from headgate.app.wire.schemas.limits import ConnectionLimits
from headgate.engine import errors
from headgate.engine.config import NO_POLICY, GroupPolicy
from headgate.engine.entry import EntryId
from headgate.engine.errors import StreamError
from headgate.engine.replies import Outcome
from headgate.engine.requests.commits import CommitStep
from headgate.engine.requests.deliveries import Ack, Nack
from headgate.engine.requests.entries import Add, StreamCursor
from headgate.engine.requests.groups import DescribeGroup
from headgate.engine.threads import this_turn

log = logging.getLogger("headgate")

_APPENDS_MAX = 64
"""Appends of one connection that wait for the disk together, each no longer than"""
_APPEND_LENGTH_MAX = 4096
"""characters. A longer one waits for those before it, and those behind it wait for it."""

_AUTH_S_MAX = 10.0
"""Time for a client to present its credential."""

_GOODBYES = (NORMAL, 1005)
"""Close codes of a client that has nothing more to say; a page that is left or loaded again has
1001."""

_GOODBYE_S_MAX = 1.0
"""Time for the last frames: less than the gateway takes to stop."""


class _Feed:
    __slots__ = ("_is_ending", "following", "subscription")

    def __init__(self, subscription: Subscription, following: asyncio.Task[None]) -> None:
        self.subscription = subscription
        self.following = following
        self._is_ending = False

    async def end(self) -> None:
        """Cancel the task and wait for its cleanup.

        It is cancelled once, so that nothing interrupts the cleanup, which goes on even if the
        caller is cancelled.
        """
        if not self._is_ending:
            self._is_ending = True
            self.following.cancel()
        await asyncio.wait((self.following,))


class Connection:
    """One socket. There may be many thousands, so each is kept small."""

    __slots__ = (
        "_access",
        "_appends",
        "_ended",
        "_feeds",
        "_first",
        "_forget_credential",
        "_gateway",
        "_held",
        "_is_goodbye",
        "_is_over",
        "_is_short",
        "_limits",
        "_outbox",
        "_patience",
        "_presences",
        "_sent_entries",
        "_session",
        "_since_ms",
        "_socket",
        "_tasks",
        "id",
    )

    def __init__(self, socket: Socket, gateway: Gateway, access: Access | None) -> None:
        self._socket = socket
        self._gateway = gateway
        self._limits: ConnectionLimits = gateway.limits
        self.id = f"{gateway.random.getrandbits(64):016x}"
        self._since_ms = gateway.auth.now_ms()
        self._sent_entries = 0
        anonymous = gateway.auth.anonymous(ServedScope(socket.scope))
        known = access or anonymous
        if gateway.tracing is not None:
            known = gateway.tracing.access(known, dict(socket.scope["headers"]))
        self._access = known.slowed()  # another principal may take its place
        socket.scope["access"] = self._access
        is_known = access is not None or bool(anonymous.principal.verbs)
        self._session = Session(
            self.id, self._limits, is_known=is_known, request_id=request_id_of(socket.scope)
        )
        self._first: Callable[[], SubscribeIntent] | None = None
        self._forget_credential: Callable[[], None] = _nothing
        self._held: Usage | None = None  # what counts this connection
        self._patience: Patience | None = None  # with a client that has to send more slowly
        self._feeds: dict[str, _Feed] = {}
        self._presences: dict[str, _Feed] = {}  # beside those of streams
        self._tasks: set[asyncio.Task[None]] = set()  # who listens, and appends that are under way
        self._appends: list[asyncio.Task[None]] = []  # begun, in order, and perhaps not over
        self._outbox = Outbox(
            socket,
            patience_ms=self._limits.send_ms_max,
            on_stuck=lambda: self._end(CloseError(SLOW)),
        )
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._is_goodbye = False  # the client has ended it, and does not just load a page again
        self._is_short = False  # made for one subscription: it ends with it
        self._is_over = False

    async def serve(self, first: Callable[[], SubscribeIntent] | None = None) -> None:
        """Converse until one side ends; then what was not settled goes back or is kept."""
        self._gateway.connections.add(self.id, self)
        self._is_short = first is not None
        self._first = first
        self._watch_credential()
        self._spawn(self._converse)
        forget_end = self._gateway.at_connection_end(lambda: self._end(errors.Draining()))
        try:
            await self._ended
        except Exception as error:  # noqa: BLE001
            if isinstance(error, Unauthenticated):  # nothing more is sent, and all held goes back
                await self._end_feeds()
            self._is_goodbye = isinstance(error, WebSocketDisconnect) and error.code in _GOODBYES
            if isinstance(error, WebSocketDisconnect) and error.code == BROKEN:
                for feed in self._feeds.values():
                    feed.subscription.is_broken = True
            await self._say_goodbye(error)
        finally:
            forget_end()
            self._gateway.connections.remove(self.id)
            self._count_for(None)
            self._forget_credential()
            self._forget_credential, self._first = _nothing, None  # they know us
            self._outbox.close()
            self._is_over = True
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await self._end_feeds()
            # An error knows the frames it came through, with what was received, and they know us.
            # So do tasks that were cancelled. Nothing of a connection waits for the collector.
            del self._ended
            self._feeds.clear()
            self._presences.clear()

    def describe(self, subscriptions_max: int) -> OpenConnection:
        feeds = islice(self._feeds.values(), max(subscriptions_max, 0))
        return OpenConnection(
            self.id,
            "websocket",
            client_address(self._socket.scope),
            self._access.principal.id,
            self._since_ms,
            unsent_bytes(self._socket._receive),  # noqa: SLF001 it belongs to the connection
            self._sent_entries,
            len(self._feeds),
            [feed.subscription.describe() for feed in feeds],
        )

    def cut_off(self) -> None:
        self._end(cut_off())

    async def _end_feeds(self) -> None:
        feeds = *self._feeds.values(), *self._presences.values()
        await asyncio.gather(*(feed.end() for feed in feeds))

    def _watch_credential(self) -> None:
        """End the connection when the credential expires, or is not sent in time."""
        self._forget_credential()
        if not self._session.is_known:
            text = "The client did not send a frame of type `auth` in time."
            loop = asyncio.get_running_loop()
            timer = loop.call_later(_AUTH_S_MAX, self._end, Unauthenticated(text))
            self._forget_credential = timer.cancel
            return
        principal = self._access.principal

        def on_end() -> None:
            self._end(Unauthenticated(principal.ending or ""))

        self._forget_credential = self._gateway.auth.at_end(principal, on_end)

    def _end(self, error: Exception) -> None:
        if not self._ended.done():
            self._ended.set_exception(error)

    def _started(self, work: Callable[[], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
        """Run a part of the conversation; an exception in it ends the connection."""

        async def run() -> None:
            try:
                await work()
            except Exception as error:  # noqa: BLE001
                self._end(error)

        return asyncio.create_task(run())

    def _spawn(self, work: Callable[[], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
        task = self._started(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _count_for(self, usage: Usage | None) -> None:
        """Count this connection for a principal, or raise GatewayError; None releases it."""
        if usage is not self._held:
            if usage is not None:
                usage.connections.take()
            if self._held is not None:
                self._held.connections.give_back()
            self._held = usage

    async def _converse(self) -> None:
        self._count_for(self._access.usage)
        if self._session.is_known:
            await self._begin()
        await self._listen()

    async def _begin(self) -> None:
        await self._send()
        first, self._first = self._first, None
        if first is not None:
            intent = first()
            self._session.subscribe(intent)
            await self._subscribe(intent)

    async def _listen(self) -> None:
        while True:
            message = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                raise WebSocketDisconnect(message.get("code", 1005))
            text = message.get("text")
            if text is None:
                raise BadFramesError("a frame must be text with one JSON object")
            intent = self._session.receive(text)
            if self._access.usage.is_rated:
                await self._wait_turn(intent, len(text))
            if isinstance(intent, AppendIntent) and len(text) <= _APPEND_LENGTH_MAX:
                await self._appends_done(but=_APPENDS_MAX - 1)
                self._appends.append(self._spawn(partial(self._carry_out, intent)))
                continue
            await self._appends_done()
            if len(text) > _APPEND_LENGTH_MAX:  # to read it may have taken a while
                await asyncio.sleep(0)
            if intent is not None:
                await self._carry_out(intent)
                if isinstance(intent, AuthIntent):
                    await self._begin()
                continue
            await self._send()
            if self._session.pause_s:
                await asyncio.sleep(self._session.pause_s)

    async def _wait_turn(self, intent: Intent | None, size_bytes: int) -> None:
        """Account for a frame, and wait while over the rate; raises RateLimited in the end."""
        usage, entries = self._access.usage, _appended_count(intent)
        delay_s = usage.delay_s(requests=1, entries=entries, size_bytes=size_bytes)
        if self._patience is None:
            self._patience = Patience()
        if self._patience.is_over(delay_s, asyncio.get_running_loop().time()):
            usage.charge(requests=1, entries=entries, size_bytes=size_bytes)  # refused: it owes
        if delay_s:
            await asyncio.sleep(delay_s)

    async def _appends_done(self, but: int = 0) -> None:
        """Wait for all running appends except the newest `but`."""
        while len(self._appends) > but:
            await self._appends.pop(0)

    async def _carry_out(self, intent: Intent) -> None:
        try:
            await self._act(intent)
        except errors.Draining:
            raise
        except (StreamError, GatewayError) as error:
            assert not isinstance(intent, UnsubscribeIntent | CreditIntent)
            if not self._session.is_known:
                raise
            self._session.done(intent, error)
        await self._send()

    async def _act(self, intent: Intent) -> None:
        match intent:
            case SubscribeIntent():
                await self._subscribe(intent)
            case UnsubscribeIntent():
                await self._unsubscribe(intent)
            case CreditIntent(sub, entries):
                if sub in self._feeds:
                    self._feeds[sub].subscription.add_credit(entries)
                self._session.done(intent, None)
            case ListenIntent() | PublishIntent() | PresenceIntent():
                await self._act_at_channel(intent)
            case AuthIntent():
                await self._authenticate(intent)
            case AppendIntent(_, stream, drafts):
                ids = (await self._access.perform(Add(stream, drafts))).ids
                self._session.done(intent, ids)
            case CommitIntent(_, _, request):
                done = await self._access.perform(request)
                if not done.is_repeat:
                    self._forget_settled(request.steps)
                self._session.done(intent, done)
            case _:
                self._session.done(intent, await self._settle(intent))

    async def _authenticate(self, intent: AuthIntent) -> None:
        """Continue as the principal of a credential; end what it may not follow."""
        access = self._gateway.auth.by_token(intent.token.get_secret_value())
        principal, before = access.principal, self._access.principal
        is_another = (principal.id, principal.user) != (before.id, before.user)
        if is_another and not before.is_anonymous:
            raise Forbidden("the credential must be of the principal that is connected")
        if principal is not before:
            self._count_for(access.usage)
            self._access.become(access)
        self._session.done(intent, principal)
        self._watch_credential()
        for sub, feed in list(self._feeds.items()):
            if not feed.subscription.may_go_on(principal):
                await feed.end()
                await self._end_presence(sub, at_once=True)
                self._over(sub, Ended(Forbidden(str(feed.subscription.need))))

    def _over(self, sub: str, ended: AtEnd | Ended) -> None:
        if self._is_short and isinstance(ended, Ended):
            self._end(ended.error)
        elif self._feeds.pop(sub, None) is not None:
            self._session.followed(sub, ended)
            if self._is_short:
                self._end(CloseError(NORMAL))

    async def _settle(self, intent: Settlement) -> Sequence[Outcome]:
        feed = self._feeds.get(intent.sub)
        if feed is None:  # it has ended meanwhile
            raise no_subscription(intent.sub)
        subscription = feed.subscription
        assert isinstance(subscription, GroupSubscription | PatternGroupSubscription)
        entries = subscription.entries_of(intent.stream)
        match intent:
            case AckIntent(ids=ids):
                return await entries.ack(ids)
            case NackIntent(ids=ids, mode=mode, delay_ms=delay_ms, error=error):
                return await entries.nack(ids, mode, delay_ms, error)
            case ExtendIntent(ids=ids):
                return await entries.extend(ids)

    def _forget_settled(self, steps: Sequence[CommitStep]) -> None:
        """Hold no more what a commit has settled of the entries that were sent here."""
        settled = [step for step in steps if isinstance(step, Ack | Nack)]
        for feed in self._feeds.values():
            if isinstance(feed.subscription, GroupSubscription | PatternGroupSubscription):
                for step in settled:
                    feed.subscription.settled(step)

    async def _subscribe(self, intent: SubscribeIntent) -> None:
        counted = self._access.usage.subscriptions
        with ExitStack() as undone:
            counted.take()
            undone.callback(counted.give_back)
            subscription = await self._subscription_of(intent)
            ready, heard = await subscription.open(), None
            if intent.presence is not None:
                place = Place("stream", intent.stream)
                need = Need((Verb.READ,), intent.stream)
                heard = await self._heard_at(place, need, intent.presence)
                undone.callback(heard.leave)
            self._session.done(intent, ready)
            await self._send()
            undone.pop_all()
        following = self._started(partial(self._follow, intent.sub, subscription))
        following.add_done_callback(lambda _: counted.give_back())
        self._feeds[intent.sub] = _Feed(subscription, following)
        if heard is not None:
            self._presences[intent.sub] = self._hear(intent.sub, heard)

    async def _act_at_channel(self, intent: ListenIntent | PublishIntent | PresenceIntent) -> None:
        match intent:
            case ListenIntent():
                await self._listen_to(intent)
            case PublishIntent(_, channel, data):
                self._access.require([Need((Verb.PUBLISH,), channel)])
                receivers = await self._gateway.channels.publish(channel, data)
                self._session.done(intent, receivers)
            case PresenceIntent():
                await self._gateway.channels.until_room()
                self._change_presence(intent)

    async def _listen_to(self, intent: ListenIntent) -> None:
        counted = self._access.usage.subscriptions
        with ExitStack() as undone:
            counted.take()
            undone.callback(counted.give_back)
            place = Place("channel", intent.channel)
            need = Need((Verb.SUBSCRIBE,), intent.channel)
            heard = await self._heard_at(place, need, intent.presence)
            undone.pop_all()
        self._session.done(intent, None)
        feed = self._feeds[intent.sub] = self._hear(intent.sub, heard)
        feed.following.add_done_callback(lambda _: counted.give_back())

    async def _heard_at(
        self, place: Place, need: Need, wish: PresenceWish | None
    ) -> ChannelSubscription:
        """Return an open subscription; `leave` must be called in the end."""
        heard = ChannelSubscription(
            self._access, place, need, self._gateway.channels, self._gateway.presence
        )
        try:
            await heard.open()
            if wish is not None:
                await self._gateway.channels.until_room()
                heard.join(wish, self.id, self._gateway.auth.now_ms())
        except BaseException:
            heard.leave(at_once=True)
            raise
        return heard

    def _hear(self, sub: str, heard: ChannelSubscription) -> _Feed:
        heard.send_at_once(partial(self._send_message, sub))
        following = self._started(partial(self._follow, sub, heard))
        following.add_done_callback(lambda _: heard.leave(at_once=self._is_goodbye))
        return _Feed(heard, following)

    def _change_presence(self, intent: PresenceIntent) -> None:
        feed = self._presences.get(intent.sub) or self._feeds.get(intent.sub)
        heard = None if feed is None else feed.subscription
        if not isinstance(heard, ChannelSubscription) or not heard.change(intent.data):
            text = f"the subscription {intent.sub!r} has no presence"
            raise GatewayError("invalid_request", text, pointer="/body/sub")
        self._session.done(intent, None)

    async def _end_presence(self, sub: str, *, at_once: bool) -> None:
        feed = self._presences.pop(sub, None)
        if feed is not None:
            assert isinstance(feed.subscription, ChannelSubscription)
            feed.subscription.leave(at_once=at_once)
            await feed.end()

    async def _subscription_of(self, intent: SubscribeIntent) -> Subscription:
        access = self._access
        credit = Credit(intent.credit, limit=self._limits.credit_max)
        if isinstance(intent.after, PatternAfter) and intent.group is not None:
            self._gateway.require(Ability.PATTERNS)
            subscriber = self._subscriber(intent, intent.group, NO_POLICY)
            return PatternGroupSubscription(access, subscriber, intent.choices, credit=credit)
        if isinstance(intent.after, PatternAfter):
            self._gateway.require(Ability.PATTERNS)
            return PatternSubscription(
                access,
                intent.stream,
                intent.after.cursor,
                beat_ms=self._limits.heartbeat_ms,
                credit=credit,
                filters=intent.choices.filters,
            )
        choices = intent.choices
        if choices.view == "table":
            return TableSubscription(
                access,
                intent.stream,
                intent.after if isinstance(intent.after, EntryId) else None,
                prefix=choices.prefix,
                conflate_ms=choices.conflate_ms,
                credit=credit,
                beat_ms=self._limits.heartbeat_ms if choices.prefix else None,
            )
        if intent.group is None:
            cursor = StreamCursor(intent.stream, intent.after)
            beat_ms = self._limits.heartbeat_ms if intent.choices.filters else None
            filters = intent.choices.filters
            return StreamSubscription(
                access, cursor, credit=credit, beat_ms=beat_ms, filters=filters
            )
        access.require([Need((Verb.CONSUME,), intent.stream, intent.group, intent.consumer)])
        info = await access.perform(DescribeGroup(intent.stream, intent.group))
        subscriber = self._subscriber(intent, intent.group, info.policy)
        return GroupSubscription(access, subscriber, info, intent.choices, credit=credit)

    def _subscriber(self, intent: SubscribeIntent, group: bytes, policy: GroupPolicy) -> Subscriber:
        return Subscriber.named_or_new(
            intent.stream,
            group,
            intent.consumer,
            intent.choices.on_disconnect,
            policy=policy,
            random=self._gateway.random,
        )

    async def _unsubscribe(self, intent: UnsubscribeIntent) -> None:
        feed = self._feeds.get(intent.sub)
        if feed is not None:  # or it has ended meanwhile
            if isinstance(feed.subscription, ChannelSubscription):
                feed.subscription.leave(at_once=True)
            await feed.end()
            self._feeds.pop(intent.sub, None)
        await self._end_presence(intent.sub, at_once=True)
        self._session.done(intent, None)

    async def _follow(self, sub: str, subscription: Subscription) -> None:
        ended: AtEnd | Ended | None = None
        if isinstance(subscription, StreamSubscription):
            subscription.read_together(self._gateway.fan_out, partial(self._send_batch, sub))
        async with aclosing(subscription.follow()) as coming:
            async for item in coming:
                if isinstance(item, AtEnd | Ended):
                    ended = item
                    break
                try:
                    self._session.followed(sub, item)
                except FrameTooLarge as error:
                    ended = Ended(error.with_traceback(None))
                    break
                self._count_sent(_entry_count(item))
                await self._send()
        if ended is None or self._is_over:
            return
        if isinstance(ended, Ended) and isinstance(ended.error, errors.Draining):
            self._end(ended.error)
            return
        self._over(sub, ended)
        self._spawn(self._send)
        if sub not in self._feeds:
            self._spawn(partial(self._end_presence, sub, at_once=True))

    def _send_message(self, sub: str, message: ChannelMessage) -> bool:
        """Send a message at once; false if that cannot be, and then nothing was done."""
        frame = None if self._is_over else self._session.message_frame(sub, message)
        if frame is None or not self._outbox.send_at_once(frame):
            return False
        self._count_sent(1)
        return True

    def _send_batch(self, sub: str, batch: StreamBatch) -> bool:
        """Send a batch at once; false if that cannot be, and then nothing was done."""
        frame = None if self._is_over else self._session.only_frame(sub, batch)
        if frame is None or not self._outbox.send_at_once(frame):
            return False
        self._count_sent(len(batch.read.entries))
        return True

    def _count_sent(self, entries: int) -> None:
        self._sent_entries += entries
        self._gateway.metrics.delivered_counts["websocket"] += entries

    async def _send(self) -> None:
        for text in self._session.frames_to_send():
            await self._outbox.send(text if isinstance(text, str) else await _joined(text))

    async def _say_goodbye(self, error: Exception) -> None:
        if isinstance(error, WebSocketDisconnect | RuntimeError):
            return  # the client is gone; starlette raises the latter on what is sent after that
        ending = ending_of(error, self._gateway.reconnect_after_ms)
        if ending is None:
            log.error("connection failed", exc_info=error)
            ending = CloseError(FAILED)
        with suppress(WebSocketDisconnect, RuntimeError, TimeoutError):
            async with asyncio.timeout(_GOODBYE_S_MAX):
                for frame in ending.last_words:
                    self._session.say(frame)
                await self._send()
        with suppress(WebSocketDisconnect, RuntimeError, TimeoutError):
            async with asyncio.timeout(_GOODBYE_S_MAX):
                await self._socket.close(ending.code)


def _nothing() -> None:
    """Do nothing."""


def _appended_count(intent: Intent | None) -> int | None:
    match intent:
        case AppendIntent(drafts=drafts):
            return len(drafts)
        case CommitIntent(request=request):
            return appended_in(request)
        case PublishIntent():
            return 1
    return None


def _entry_count(item: Followed) -> int:
    match item:
        case Heard(message):
            return int(message is not None)
        case StreamBatch(read):
            return len(read.entries)
        case RowsBatch(page):
            return len(page.rows)
        case PatternBatch(read):
            return read.entry_count
        case GroupBatch(deliveries):
            return len(deliveries)
        case GroupsBatch(read):
            return read.delivery_count
    return 0


async def _joined(parts: Iterator[str]) -> str:
    turn, made = this_turn(), []
    for part in parts:
        made.append(part)
        await turn.pause()
    return "".join(made)
