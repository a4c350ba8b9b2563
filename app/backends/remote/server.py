"""The engine's end of the sockets carries out what workers ask of the engine.

Everything that came in one read of a socket is begun in order of arrival, and everything answered
in one turn of the loop is sent in one write. There is no second decision logic: the embedded
backend performs the requests.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec

from headgate.app.backends.embedded import EmbeddedBackend
from headgate.app.backends.port import Holding
from headgate.app.backends.releasing import remove_stranded
from headgate.app.backends.remote.calls import put_together
from headgate.app.backends.remote.frames import FrameProtocol
from headgate.app.backends.remote.leases import Holdings
from headgate.app.backends.remote.messages import (
    Answer,
    Call,
    Cancel,
    Cancelled,
    Changed,
    DraftPortion,
    EngineState,
    Failed,
    Follow,
    Hello,
    Hold,
    OfWorker,
    PerformedRequest,
    Rewrite,
    Rewriting,
    Taken,
    Transaction,
    TurnedAway,
    Unfollow,
    Unhold,
    Welcome,
    facts_of,
    version_of_messages,
)
from headgate.app.runtime import periodic
from headgate.engine.eager import EagerCall
from headgate.engine.errors import Invalid, NotSupported, StreamError, Unavailable
from headgate.engine.journal.journal import Journal
from headgate.engine.loop.appends import is_plain
from headgate.engine.loop.takeovers import TakeoverFeed
from headgate.engine.replies import Added
from headgate.engine.requests import Request
from headgate.engine.requests.bulk import PlanRead
from headgate.engine.requests.deliveries import ReadGroup, ReadGroups
from headgate.engine.requests.entries import Add, Read, ReadPattern
from headgate.engine.state.extent import Missing
from headgate.engine.threads import this_turn

log = logging.getLogger("headgate")

_LOOK_S = 0.1
"""Interval between looks for a change of the engine's state."""

_STRANDED_S = 3.0
"""Time for workers to connect to an engine that was started, before the temporary consumers
that none of them holds are removed."""

_PROMPT_MAX = 4_096
"""Calls of one worker that are under way, without reads that wait. With more, the worker is read no
further."""

_LOOKS_AT_TIME = 32
"""Messages that are begun before it is looked how long that took."""

_APPENDED_AT_ONCE = 100
"""Appends that are decided together; each takes a microsecond."""

_MAY_WAIT = (Read, PlanRead, ReadGroup, ReadGroups, ReadPattern)

_FAILED = "the engine failed on this request; its log has the details"

_decode_hello = msgspec.msgpack.Decoder(list[Hello]).decode
_decode = msgspec.msgpack.Decoder(list[OfWorker]).decode


class EngineServer:
    """Lets workers use the engine of this process; somebody else runs and closes its backend."""

    def __init__(self, backend: EmbeddedBackend) -> None:
        self.backend = backend
        self.holdings = Holdings(backend.perform)
        self.sessions: set[WorkerSession] = set()
        self.tasks: asyncio.TaskGroup | None = None
        self._state = EngineState()

    async def run(self, listening: socket.socket) -> None:
        """Serve workers until cancelled; the listening Unix socket stays open for its next user."""
        listening.setblocking(False)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(periodic.repeat("state of the engine", self._tell_and_wait))
                tasks.create_task(periodic.complete("stranded consumers", self._remove_stranded))
                self.tasks = tasks
                try:
                    await periodic.repeat("workers accepted", partial(self._accept, listening))
                finally:
                    self.tasks = None  # the group takes no more, and a worker may go now
        finally:
            for session in list(self.sessions):
                session.close()

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        client, _ = await loop.sock_accept(listening)
        try:
            await loop.connect_accepted_socket(partial(WorkerSession, self), client)
        except BaseException:
            client.close()
            raise

    def state(self) -> EngineState:
        backend = self.backend
        journal = None if backend.journal is None else backend.journal.status
        return EngineState(
            backend.refusal,
            backend.failure,
            backend.is_draining,
            backend.unsaved_count,
            dict(backend.memory_bytes()),
            journal,
        )

    def tell_state(self) -> None:
        state = self.state()
        if state != self._state:
            for session in self.sessions:
                session.send(Changed(state))
            self._state = state

    async def _tell_and_wait(self) -> None:
        self.tell_state()
        await asyncio.sleep(_LOOK_S)

    async def _remove_stranded(self) -> None:
        await asyncio.sleep(_STRANDED_S)
        with suppress(Unavailable):
            await remove_stranded(self.backend, self._is_temporary_held)

    def _is_temporary_held(self, stream: bytes, group: bytes, consumer: bytes) -> bool:
        return self.holdings.is_held(Holding(stream, group, consumer, is_temporary=True))


class WorkerSession(FrameProtocol):
    def __init__(self, server: EngineServer) -> None:
        super().__init__(_decode_hello)
        self._server = server
        self._backend = server.backend
        self._name = ""
        self._messages: deque[Any] = deque()  # that are not begun yet
        self._portions: dict[int, list[DraftPortion]] = {}  # of calls that have not arrived yet
        self._is_working = False
        self._running: dict[int, EagerCall] = {}
        self._all_ended: asyncio.Event | None = None  # once the connection is lost
        self._prompt_count = 0
        # Answers that are sent when the journal is durable up to a position, and how many.
        self._unsent: deque[tuple[int, list[Answer[Any] | Failed]]] = deque()
        self._unsent_count = 0
        self._is_waiting = False
        self._followed: dict[int, TakeoverFeed] = {}
        self._held: Counter[Holding] = Counter()
        self._does: Mapping[type[Any], Callable[[Any], None]] = {
            Call: self._call,
            DraftPortion: self._keep,
            Transaction: self._transact,
            Cancel: self._cancel,
            Hold: self._hold,
            Unhold: self._unhold,
            Follow: self._follow,
            Unfollow: self._unfollow,
            Rewrite: self._rewrite,
            Hello: self._greet,
        }

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._server.sessions.add(self)

    # What the worker says

    def messages_received(self, messages: Sequence[Any]) -> None:
        self._messages.extend(messages)
        if not self._is_working:
            self._work()

    def _work(self) -> None:
        """Begin messages for a few milliseconds, and the others in the next turns of the loop.

        Meanwhile, and while too much is in progress, nothing more is read from this worker.
        """
        self._is_working = False
        turn = this_turn()
        messages, count = self._messages, 0
        appends: list[Call] = []  # plain ones with nothing else in between
        while messages and self.is_open and self._may_begin:
            message = messages.popleft()
            kind, count = type(message), count + 1
            if kind is Call and type(message.request) is Add and is_plain(message.request):
                appends.append(message)
                if len(appends) == _APPENDED_AT_ONCE:
                    self._append(appends)
            else:
                self._append(appends)
                self._does[kind](message)
            if count % _LOOKS_AT_TIME == 0 and turn.is_over:
                break
        self._append(appends)
        self._send_durable()
        if self._transport is None:
            return
        if not messages:
            self._transport.resume_reading()
            return
        self._transport.pause_reading()
        if self._may_begin:
            self._is_working = True
            turn.call_later(self._work)

    @property
    def _may_begin(self) -> bool:
        return self._prompt_count + self._unsent_count < _PROMPT_MAX

    def _go_on(self) -> None:
        if self._messages and not self._is_working and self._may_begin:
            self._is_working = True
            self._loop.call_soon(self._work)

    def _greet(self, message: Hello) -> None:
        version = version_of_messages()
        if message.version != version:
            why = f"the engine has version {version}, the worker has version {message.version}"
            log.error("a worker was refused", extra={"reason": why, "worker": message.name})
            self.send(TurnedAway(why))
            self.close()
            return
        self.decode = _decode
        self._name = message.name
        for holding in message.holdings:
            self._note_held(holding)
        self.send(
            Welcome(sorted(self._backend.abilities), self._backend.durable, self._server.state())
        )
        log.info("a worker has connected", extra={"worker": self._name})

    def _call(self, message: Call) -> None:
        """Carry out a request at once if possible; its reply is sent when it is durable."""
        request: Request[Any] = message.request
        number, engine = message.number, self._backend.engine
        try:
            if message.portion_count:
                request = put_together(message, self._portions.pop(number, ()))
            begun = engine.begin(request)
        except Exception as error:  # noqa: BLE001 the worker raises it
            self._fail(number, engine.storage.position, error)
        else:
            if begun is None:
                waits = isinstance(request, _MAY_WAIT) and request.wait_ms != 0
                self._begin(number, engine.perform(request), waits=waits)
            else:
                self._send_later(begun.position, [Answer(number, begun.reply)])

    def _append(self, calls: list[Call]) -> None:
        """Carry out plain appends at once, and clear `calls`; they are answered as other calls."""
        if not calls:
            return
        engine = self._backend.engine
        outcomes = engine.begin_appends([call.request for call in calls])
        position = engine.storage.position
        answers: list[Answer[Any] | Failed] = []
        for call, outcome in zip(calls, outcomes, strict=True):
            if isinstance(outcome, Added):
                answers.append(Answer(call.number, outcome))
            elif isinstance(outcome, Missing):
                self._begin(call.number, engine.perform(call.request), waits=False)
            else:
                self._fail(call.number, position, outcome)
        self._send_later(position, answers)
        calls.clear()

    def _fail(self, number: int, position: int, error: Exception) -> None:
        """Answer with an error once what it reveals of the state is durable."""
        if isinstance(error, Unavailable):
            self.send(Failed(number, facts_of(error)))
        elif isinstance(error, StreamError):
            self._send_later(position, [Failed(number, facts_of(error))])
        else:
            log.error("a request has failed", exc_info=error)
            self.send(Failed(number, facts_of(Unavailable(_FAILED))))

    def _keep(self, message: DraftPortion) -> None:
        self._portions.setdefault(message.number, []).append(message)

    def _send_later(self, position: int, answers: list[Answer[Any] | Failed]) -> None:
        self._unsent.append((position, answers))
        self._unsent_count += len(answers)

    def _send_durable(self) -> None:
        """Send the answers that are durable, and wait for the others."""
        unsent, durable_position = self._unsent, self._backend.engine.durable_position
        while unsent and unsent[0][0] <= durable_position:
            self._send_answers(unsent.popleft()[1])
        if unsent and not self._is_waiting:
            self._is_waiting = True
            EagerCall(self._wait_for(unsent[-1][0]), self._end_waiting).start()

    def _send_answers(self, answers: Sequence[Answer[Any] | Failed]) -> None:
        self._unsent_count -= len(answers)
        for answer in answers:
            self._send_answer(answer)

    async def _wait_for(self, position: int) -> None:
        try:
            await self._backend.engine.until_durable(position)
        except Unavailable as error:
            # What is sent here was given up. What came later is found out by its own wait.
            unsent, durable_position = self._unsent, self._backend.engine.durable_position
            failed = facts_of(error)
            while unsent and unsent[0][0] <= position:
                at, answers = unsent.popleft()
                if at > durable_position:
                    answers = [Failed(answer.number, failed) for answer in answers]
                self._send_answers(answers)

    def _end_waiting(self, _: EagerCall) -> None:
        self._is_waiting = False
        self._send_durable()
        self._go_on()

    def _transact(self, message: Transaction) -> None:
        self._begin(message.number, self._outcomes(message))

    async def _outcomes(self, message: Transaction) -> list[PerformedRequest[Any]]:
        outcomes = await self._backend.engine.perform_all(message.requests)
        return [
            PerformedRequest(None, facts_of(outcome))
            if isinstance(outcome, StreamError)
            else PerformedRequest(outcome, None)
            for outcome in outcomes
        ]

    def _cancel(self, message: Cancel) -> None:
        self._portions.pop(message.number, None)
        call = self._running.get(message.number)
        if call is not None:
            call.cancel()

    def _hold(self, message: Hold) -> None:
        self._note_held(message.holding)
        self.send(Answer(message.number, None))

    def _note_held(self, holding: Holding) -> None:
        self._held[holding] += 1
        self._server.holdings.add(holding)

    def _unhold(self, message: Unhold) -> None:
        holding = message.holding
        if self._held[holding] > 0:
            self._held[holding] -= 1
            self._server.holdings.remove(holding)
        if not self._held[holding]:
            del self._held[holding]
        self.send(Answer(message.number, None))

    def _follow(self, message: Follow) -> None:
        feed = self._backend.engine.claims(message.stream, message.group, message.consumer)
        feed.on_put = partial(self._tell_takeovers, message.number, feed)
        feed.open()
        self._followed[message.number] = feed

    def _tell_takeovers(self, number: int, feed: TakeoverFeed) -> None:
        """Send the takeovers of a feed; they stay there while the worker reads nothing."""
        while not self.is_paused and (takeover := feed.take()) is not None:
            self.send(Taken(number, takeover))

    def resume_writing(self) -> None:
        super().resume_writing()
        for number, feed in self._followed.items():
            self._tell_takeovers(number, feed)

    def _unfollow(self, message: Unfollow) -> None:
        feed = self._followed.pop(message.number, None)
        if feed is not None:
            feed.close()

    def _rewrite(self, message: Rewrite) -> None:
        try:
            storage = self._backend.engine.storage
            if not isinstance(storage, Journal):
                raise NotSupported("a journal")
            is_started = storage.start_rewrite()
        except StreamError as error:
            self.send(Failed(message.number, facts_of(error)))
        else:
            self.send(Answer(message.number, Rewriting(is_started, self._server.state())))

    # What is under way

    def _begin(
        self, number: int, performing: Coroutine[Any, Any, Any], *, waits: bool = False
    ) -> None:
        """Run a call until it waits for something, and answer when it ends."""
        self._prompt_count += not waits
        answering = self._answer(number, performing)
        call = EagerCall(answering, lambda _: self._note_end(number, waits=waits))
        self._running[number] = call
        call.start()

    async def _answer(self, number: int, performing: Coroutine[Any, Any, Any]) -> None:
        try:
            reply = await performing
        except StreamError as error:
            self.send(Failed(number, facts_of(error)))
        except asyncio.CancelledError:
            self.send(Cancelled(number))
            raise
        except Exception:
            log.exception("a request has failed")
            self.send(Failed(number, facts_of(Unavailable(_FAILED))))
        else:
            self._send_answer(Answer(number, reply))

    def _send_answer(self, message: Answer[Any] | Failed) -> None:
        try:
            self.send(message)
        except OverflowError as error:
            self.unsent(message, error)

    def unsent(self, message: Any, error: OverflowError) -> None:
        self.send(Failed(message.number, facts_of(Invalid(str(error)))))

    def _note_end(self, number: int, *, waits: bool) -> None:
        del self._running[number]
        self._prompt_count -= not waits
        self._go_on()
        if self._all_ended is not None and not self._running:
            self._all_ended.set()

    def lost(self) -> None:
        """Cancel the worker's calls, then release the entries of its connections."""
        server = self._server
        server.sessions.discard(self)
        self._messages.clear()
        self._all_ended = asyncio.Event()
        for call in list(self._running.values()):
            call.cancel()
        for feed in self._followed.values():
            feed.close()
        if not self._running:
            self._all_ended.set()
        holdings = set(self._held)
        for holding in self._held.elements():
            server.holdings.remove(holding)
        self._held.clear()
        if server.tasks is not None and self._name:
            facts = {"worker": self._name, "consumers": len(holdings)}
            log.log(logging.WARNING if holdings else logging.INFO, "a worker has gone", extra=facts)
            release = partial(self._release, self._all_ended, holdings)
            server.tasks.create_task(periodic.complete("holdings of a worker", release))

    async def _release(self, all_ended: asyncio.Event, holdings: set[Holding]) -> None:
        await all_ended.wait()
        await self._server.holdings.release(holdings)
