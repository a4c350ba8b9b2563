"""A process that serves requests, and asks the engine process or servers for the streams."""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Final, Never

from fastapi import FastAPI

from headgate.app.gateway.backends import open_backend, open_remote
from headgate.app.gateway.credentials import open_credentials
from headgate.app.main import create_app
from headgate.app.runtime import collector, periodic
from headgate.app.runtime.siblings import SHARE_INTERVAL_S
from headgate.app.server import GRACE_S, Server
from headgate.app.settings import Settings
from headgate.app.transport.listening import Listener
from headgate.app.transport.sockets import Sockets
from headgate.app.workers.channel import Orders
from headgate.app.workers.hub import Member, end_in_time

# Admission: a worker that is full leaves connections to its siblings, if one of them has room.
#
# The workers of a gateway share its listening sockets, so each connection waits in one queue for
# all of them. A worker that is full does not look into the queue any more. It goes on when a
# connection has ended. It also goes on when all workers are full: somebody has to tell clients.


class Admission:
    """Lets the listeners of a worker pause. It costs nothing while there is room."""

    def __init__(self, sockets: Sockets, listeners: Sequence[Listener]) -> None:
        self._sockets = sockets
        self._listeners = listeners
        self._is_full = asyncio.Event()
        sockets.listener_count = len(listeners)
        sockets.on_full = self._note_full

    async def run(self) -> Never:
        """Check, while the worker is full, whether to accept again, until cancelled."""
        await periodic.repeat("admission", self._look)

    def _note_full(self) -> None:
        self._is_full.set()
        if self._sockets.is_left_to_siblings():
            self._pause()

    async def _look(self) -> None:
        await self._is_full.wait()
        await asyncio.sleep(SHARE_INTERVAL_S)  # siblings are heard as often
        has_room = self._sockets.free_count > 0
        if not has_room and self._sockets.is_left_to_siblings():
            self._pause()
            return
        for listener in self._listeners:
            await listener.open()
        if has_room:
            self._is_full.clear()

    def _pause(self) -> None:
        for listener in self._listeners:
            listener.pause()


_LOOK_S: Final = 0.05


class WorkerServer(Server):
    def __init__(
        self,
        app: FastAPI,
        settings: Settings,
        member: Member,
        redis_sockets: Sequence[socket.socket],
    ) -> None:
        super().__init__(app, settings, redis_sockets=redis_sockets)
        self._member = member
        self._is_replaced = False
        self._listeners: list[Listener] = []
        self._longest_s = settings.wait_ms_max / 1000

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to stop; Ctrl-C is for the supervisor."""
        if sig != signal.SIGINT:
            super().handle_exit(sig, frame)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await self._member.open(self._on_stop)
        await super().startup(sockets)
        if self.started:
            self._member.ready()

    async def main_loop(self) -> None:
        """Serve; while this worker is full, a sibling with room accepts instead."""
        listeners = [*self._listeners, *self.redis.listeners]
        async with asyncio.TaskGroup() as tasks:
            admitting = tasks.create_task(Admission(self._gateway.sockets, listeners).run())
            await super().main_loop()
            admitting.cancel()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._is_replaced:
            await self._leave()
        await super().shutdown(sockets)

    async def _listen(self, sockets: list[socket.socket] | None) -> None:
        """Use listeners that may pause, which those of uvicorn cannot."""
        await super()._listen([])
        self._listeners = [Listener(each, self._protocol) for each in sockets or ()]
        self.servers = self._listeners  # type: ignore[assignment]  # uvicorn only closes them
        for listener in self._listeners:
            await listener.open()

    def _protocol(self) -> asyncio.Protocol:
        make: Any = self.config.http_protocol_class
        protocol: asyncio.Protocol = make(
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        return protocol

    def _on_stop(self, is_replaced: bool) -> None:
        self._is_replaced = is_replaced and not self.should_exit
        self.should_exit = True
        self.force_exit = self.force_exit or self._member.is_orphan

    async def _leave(self) -> None:
        """Refuse nobody who is connected: others serve new connections.

        Long-lived connections are asked to come back. Each other connection gets the answers that
        it waits for. An idle connection may send one more request within `GRACE_S`; the answer says
        that the connection closes.
        """
        for server in self.servers:
            server.close()
        self.redis.stop_listening()
        self._gateway.sockets.is_closing = True
        self._gateway.draining.set()
        loop, state = asyncio.get_running_loop(), self.server_state
        began_s = loop.time()
        while self._is_replaced and state.connections:
            waited_s = loop.time() - began_s
            if waited_s > (self._longest_s if state.tasks else GRACE_S):
                break
            await asyncio.sleep(_LOOK_S)


def run(settings: Settings, orders: Orders, end: socket.socket) -> None:
    """Serve until told to stop. Raises ValueError, OSError, UnusableCertificate or Exposed."""
    sockets = _taken_over(orders.sockets)
    redis_sockets = _taken_over(orders.redis_sockets)
    member = Member(orders, end, end_in_time)
    credentials = open_credentials(settings, ticket_secret=orders.ticket_secret, siblings=member)
    if orders.engine_path is None:
        backend = open_backend(settings)
    else:
        backend = open_remote(settings, Path(orders.engine_path), orders.worker_count)
    staged_dir = None if orders.staged_dir is None else Path(orders.staged_dir)
    app = create_app(settings, backend, credentials, siblings=member, staged_dir=staged_dir)
    gc.collect()
    collector.look_at_the_new_only()
    WorkerServer(app, settings, member, redis_sockets).run(sockets)


def _taken_over(descriptors: Sequence[int]) -> list[socket.socket]:
    sockets = [socket.socket(fileno=descriptor) for descriptor in descriptors]
    for each in sockets:
        each.set_inheritable(False)
    return sockets
