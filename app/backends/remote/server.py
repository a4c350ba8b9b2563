"""Server: the engine's end of the sockets. It carries out what workers ask of the engine.

Everything that came in one read of a socket is begun in order of arrival, and everything that is
answered in one turn of the loop goes in one write. There is no second decision logic: the embedded
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
from headgate.app.backends.remote.frames import FrameProtocol
from headgate.app.backends.remote.holdings import Holdings
from headgate.app.backends.remote.messages import (
    VERSION,
    Answer,
    Call,
    Cancel,
    Cancelled,
    Changed,
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
)
from headgate.app.live.subscriber import remove_stranded
from headgate.engine.errors import NotSupported, StreamError, Unavailable
from headgate.engine.journal.journal import Journal
from headgate.engine.limits import TURN_MS_MAX
from headgate.engine.requests import Request
from headgate.engine.requests.bulk import PlanRead
from headgate.engine.requests.deliveries import ReadGroup
from headgate.engine.requests.entries import Read

log = logging.getLogger("headgate")

_LOOK_S = 0.1
"""How often it is looked whether the state of the engine is another one."""

_STRANDED_S = 3.0
"""How long workers have to connect to an engine that was started, before the temporary consumers
that none of them holds are removed."""

_PROMPT_MAX = 4_096
"""Calls of one worker that are under way, without reads that wait. With more, the worker is read no
further."""

_LOOKS_AT_TIME = 32
"""Messages that are begun before it is looked how long that took."""

_FAILED = "the engine has failed at this request; its log says how"

_decode_hello = msgspec.msgpack.Decoder(list[Hello]).decode
_decode = msgspec.msgpack.Decoder(list[OfWorker]).decode


class EngineServer:
    """Lets workers use the engine of this process."""

    def __init__(self, backend: EmbeddedBackend) -> None:
        """Get ready to serve.

        Args:
            backend: the engine. Somebody else runs and closes it.
        """
        self.backend = backend
        self.holdings = Holdings(backend.perform)
        self.sessions: set[WorkerSession] = set()
        self.tasks: asyncio.TaskGroup | None = None
        self._state = EngineState()

    async def run(self, listening: socket.socket) -> None:
        """Serve workers until cancelled.

        Args:
            listening: a Unix socket that listens. It stays open, for whoever serves it next.
        """
        loop = asyncio.get_running_loop()
        listening.setblocking(False)
        try:
            async with asyncio.TaskGroup() as self.tasks:
                self.tasks.create_task(self._keep_telling())
                self.tasks.create_task(self._remove_stranded())
                while True:
                    client, _ = await loop.sock_accept(listening)
                    await loop.connect_accepted_socket(partial(WorkerSession, self), client)
        finally:
            self.tasks = None
            for session in list(self.sessions):
                session.close()

    def state(self) -> EngineState:
        """Return what the engine says of itself."""
        backend = self.backend
        journal = None if backend.journal is None else backend.journal.status
        return EngineState(
            backend.refusal,
            backend.failure,
            backend.is_draining,
            backend.engine.unsaved_count,
            dict(backend.memory_bytes()),
            journal,
        )

    def tell_state(self) -> None:
        """Tell all workers how the engine is, if that has changed."""
        state = self.state()
        if state != self._state:
            self._state = state
            for session in self.sessions:
                session.send(Changed(state))

    async def _keep_telling(self) -> None:
        while True:
            self.tell_state()
            await asyncio.sleep(_LOOK_S)

    async def _remove_stranded(self) -> None:
        await asyncio.sleep(_STRANDED_S)
        with suppress(Unavailable):
            await remove_stranded(self.backend, self._is_temporary_held)

    def _is_temporary_held(self, stream: bytes, group: bytes, consumer: bytes) -> bool:
        return self.holdings.is_held(Holding(stream, group, consumer, is_temporary=True))


class WorkerSession(FrameProtocol):
    """The connection of one worker."""

    def __init__(self, server: EngineServer) -> None:
        """Wait for the worker's first message."""
        super().__init__(_decode_hello)
        self._server = server
        self._backend = server.backend
        self._name = ""
        self._messages: deque[Any] = deque()  # that are not begun yet
        self._is_working = False
        self._running: dict[int, asyncio.Task[Any]] = {}
        self._prompt_count = 0
        self._following: dict[int, asyncio.Task[None]] = {}
        self._held: Counter[Holding] = Counter()
        self._does: Mapping[type[Any], Callable[[Any], None]] = {
            Call: self._call,
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
        """Take a new connection."""
        super().connection_made(transport)
        self._server.sessions.add(self)

    # What the worker says

    def messages_received(self, messages: Sequence[Any]) -> None:
        """Begin what is asked for, in order of arrival."""
        self._messages.extend(messages)
        if not self._is_working:
            self._work()

    def _work(self) -> None:
        """Begin messages for a few milliseconds, and the others in the next turns of the loop.

        Meanwhile, and while too much is under way, nothing more is read of this worker.
        """
        self._is_working = False
        over_s = self._loop.time() + TURN_MS_MAX / 1000
        messages, count = self._messages, 0
        while messages and self.is_open and self._prompt_count < _PROMPT_MAX:
            message = messages.popleft()
            self._does[type(message)](message)
            count += 1
            if count % _LOOKS_AT_TIME == 0 and self._loop.time() >= over_s:
                break
        if self._transport is None:
            return
        if not messages:
            self._transport.resume_reading()
            return
        self._transport.pause_reading()
        if self._prompt_count < _PROMPT_MAX:
            self._is_working = True
            self._loop.call_soon(self._work)

    def _greet(self, message: Hello) -> None:
        if message.version != VERSION:
            why = f"the engine is of version {VERSION}, the worker of version {message.version}"
            log.error("a worker is refused", extra={"reason": why, "worker": message.name})
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
        request: Request[Any] = message.request
        waits = isinstance(request, Read | PlanRead | ReadGroup) and request.wait_ms != 0
        self._begin(message.number, self._backend.perform(request), waits=waits)

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
        task = self._running.get(message.number)
        if task is not None:
            task.cancel()

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
        task = self._loop.create_task(self._tell_takeovers(message))
        self._following[message.number] = task

    async def _tell_takeovers(self, message: Follow) -> None:
        feed = self._backend.engine.claims(message.stream, message.group, message.consumer)
        async with feed:
            async for takeover in feed:
                self.send(Taken(message.number, takeover))

    def _unfollow(self, message: Unfollow) -> None:
        task = self._following.pop(message.number, None)
        if task is not None:
            task.cancel()

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
        task = self._loop.create_task(performing)
        self._running[number] = task
        self._prompt_count += not waits
        task.add_done_callback(partial(self._answer, number, waits))

    def _answer(self, number: int, waits: bool, task: asyncio.Task[Any]) -> None:
        self._running.pop(number, None)
        self._prompt_count -= not waits
        if self._messages and not self._is_working:
            self._is_working = True
            self._loop.call_soon(self._work)
        if task.cancelled():
            self.send(Cancelled(number))
            return
        error = task.exception()
        if error is None:
            self.send(Answer(number, task.result()))
        elif isinstance(error, StreamError):
            self.send(Failed(number, facts_of(error)))
        else:
            log.error("a request has failed", exc_info=error)
            self.send(Failed(number, facts_of(Unavailable(_FAILED))))

    def lost(self) -> None:
        """Cancel what the worker waits for, then release what its connections held."""
        server = self._server
        server.sessions.discard(self)
        self._messages.clear()
        running = [*self._running.values(), *self._following.values()]
        for task in running:
            task.cancel()
        holdings = set(self._held)
        for holding in self._held.elements():
            server.holdings.remove(holding)
        self._held.clear()
        if server.tasks is not None and self._name:
            log.warning(
                "a worker has gone", extra={"worker": self._name, "consumers": len(holdings)}
            )
            server.tasks.create_task(self._release(running, holdings))

    async def _release(self, running: Sequence[asyncio.Task[Any]], holdings: set[Holding]) -> None:
        if running:
            await asyncio.wait(running)
        await self._server.holdings.release(holdings)
