"""The parts of one app, and what concerns all connections that stay open."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headgate.app.auth.access import Access
from headgate.app.auth.authenticator import Authenticator
from headgate.app.auth.credentials import Credentials
from headgate.app.auth.principal import Principal
from headgate.app.automation.signing import Sealing
from headgate.app.automation.targets import Targets
from headgate.app.automation.webhooks import Sender
from headgate.app.backends.leading import bucket_of
from headgate.app.backends.port import Ability, Backend
from headgate.app.channels.channels import Channels
from headgate.app.channels.peers import ServerPeers
from headgate.app.channels.presence import Presence
from headgate.app.gateway.fan_out import FanOut
from headgate.app.measuring.recorder import HistoryReader
from headgate.app.redis_syntax.runs import CommandRunner
from headgate.app.runtime import metric_sums
from headgate.app.runtime.connections import Connections
from headgate.app.runtime.siblings import SharedCounts, Siblings
from headgate.app.runtime.telemetry import Metrics
from headgate.app.runtime.threads import METRICS
from headgate.app.transport.sockets import Sockets
from headgate.app.wire.problems import GatewayError, cut_off
from headgate.app.wire.schemas.limits import Limits
from headgate.engine.errors import NotSupported, Unavailable
from headgate.engine.replies import BucketStatus, LeaderRole

if TYPE_CHECKING:
    from headgate.app.tracing import Tracing


log = logging.getLogger("headgate")

_RECONNECT_MS = 1000

_METRICS_WITHIN_S = 5.0
_CONNECTIONS, _SOCKETS = "connections", "sockets"  # what is shared of them is how many there are
_FREE = "sockets free"


class DrainSignal(asyncio.Event):
    """Is set when the gateway is about to stop; a listener costs less than a task."""

    def __init__(self) -> None:
        super().__init__()
        self.listeners: set[Callable[[], None]] = set()

    def set(self) -> None:
        super().set()
        for listener in list(self.listeners):
            try:
                listener()
            except Exception:  # the others, and the engine, end all the same
                log.exception("a connection could not be asked to end")


_SPARE_KINDS = {"cache", "held"}
"""Kinds of memory that do not count: they leave when there is no room."""

_KINDS = {
    "pending": "pending entries, which are freed when they are acknowledged",
    "entries": "entries, which are freed when they are trimmed or deleted",
    "keys": "idempotency keys, which are freed when they expire",
}
"""Kinds that may take most of the memory, with the remedies."""


@dataclass(frozen=True)
class Gateway:
    backend: Backend
    commands: CommandRunner | None  # None: the backend lacks what commands need
    limits: Limits
    metrics: Metrics
    sockets: Sockets
    auth: Authenticator
    credentials: Credentials
    history: HistoryReader
    random: random.Random  # for jitter and the names of nameless consumers
    siblings: Siblings | None = None  # other processes of this gateway
    tracing: Tracing | None = None  # if somebody collects traces
    draining: DrainSignal = field(default_factory=DrainSignal)  # it is about to stop
    died: asyncio.Event = field(default_factory=asyncio.Event)  # a task that the gateway needs has
    targets: Targets = field(default_factory=Targets)  # of webhooks
    sender: Sender = field(default_factory=lambda: Sender(Targets()))  # of test events of pushes
    sealing: Sealing = field(default_factory=lambda: Sealing(None))  # of secrets of pushes
    shared_counts: SharedCounts | None = field(default=None, init=False)
    connections: Connections = field(init=False)  # that stay open
    fan_out: FanOut = field(init=False)
    channels: Channels = field(init=False)
    presence: Presence = field(init=False)
    server_peers: ServerPeers | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "connections", Connections(self.siblings))
        object.__setattr__(self, "fan_out", FanOut(self.backend))
        channels = Channels(self.siblings, self.backend.relay)
        object.__setattr__(self, "channels", channels)
        relay, ttl_ms = self.backend.relay, self.limits.presence_ttl_ms
        number = 0 if self.siblings is None else self.siblings.number
        if relay is not None:
            number = self.random.getrandbits(63)
            peers = ServerPeers(channels, relay, number=number, ttl_ms=ttl_ms)
            object.__setattr__(self, "server_peers", peers)
        presence = Presence(
            channels, self.server_peers or self.siblings, number=number, ttl_ms=ttl_ms
        )
        object.__setattr__(self, "presence", presence)
        if self.siblings is not None:
            counts = SharedCounts(self.siblings, "connections", self._counts)
            object.__setattr__(self, "shared_counts", counts)
            self.sockets.elsewhere = lambda: counts.elsewhere(_SOCKETS)
            self.sockets.free_elsewhere = lambda: counts.elsewhere(_FREE)

    async def share(self) -> None:
        """Tell other processes what they have to know, until this is cancelled."""
        sharing = (self.shared_counts, self.server_peers, self.presence)
        await asyncio.gather(*(each.run() for each in sharing if each is not None))

    async def metrics_text(self) -> bytes:
        if self.siblings is None:
            return await self.metrics.text()
        within_s = _METRICS_WITHIN_S
        [answer] = await self.siblings.gather(metric_sums.METRICS, b"", within_s=within_s) or [b""]
        if not answer:
            raise Unavailable("the other processes of the gateway do not answer")
        return await METRICS.call_if_awaited(
            lambda: metric_sums.text_of(metric_sums.decode(answer))
        )

    @property
    def waiter_count(self) -> int:
        return self.backend.waiter_count + self.fan_out.waiter_count

    def streams_bytes(self) -> int:
        if self.siblings is not None and self.siblings.has_engine:
            return 0
        return sum(self.backend.memory_bytes().values())

    def warnings(self) -> Iterator[str]:
        yield from self.credentials.warnings()
        yield from self._memory_warnings()
        journal = self.backend.journal
        with suppress(Unavailable):  # the engine has not said yet how its journal is
            status = None if journal is None else journal.status
            if status is not None and status.damage_count:
                text = "Entries on the disk were damaged and are lost"
                yield f"{text}: {status.damage_count} chunks, the last one {status.damage}."
            if status is not None and status.rewrite_failure is not None:
                text = "The journal could not be rewritten. It grows until a rewrite succeeds"
                yield f"{text}: {status.rewrite_failure}."

        bucket = bucket_of(self.backend)
        if bucket is not None and bucket.error is not None:
            lacks = f"it lacks {bucket.unshipped_bytes} bytes of the journal"
            yield f"The bucket accepts no writes at the moment, and {lacks}: {bucket.error}"

    def _memory_warnings(self) -> Iterator[str]:
        limit_bytes = self.limits.memory_bytes_max
        sizes = {
            kind: size_bytes
            for kind, size_bytes in self.backend.memory_bytes().items()
            if kind not in _SPARE_KINDS
        }
        if limit_bytes and sum(sizes.values()) > limit_bytes:
            kind, size_bytes = max(sizes.items(), key=itemgetter(1))
            text = "Memory is full, so requests that add to the streams are refused"
            yield (
                f"{text}: {size_bytes} of {limit_bytes} bytes are used by {_KINDS.get(kind, kind)}."
            )

    def _counts(self) -> Mapping[str, int]:
        return {
            _CONNECTIONS: self.metrics.connection_count,
            _SOCKETS: self.sockets.count(),
            # A process that ends accepts nothing.
            _FREE: 0 if self.draining.is_set() else self.sockets.free_count,
        }

    def require(self, ability: Ability) -> None:
        if ability not in self.backend.abilities:
            raise GatewayError("not_supported", str(NotSupported(ability)))

    def check_room(self) -> None:
        limit = self.limits.connections_max
        shared = self.shared_counts
        elsewhere = 0 if shared is None else shared.elsewhere(_CONNECTIONS)
        if self.metrics.connection_count + elsewhere >= limit:
            text = f"too many open connections: the limit is {limit}"
            raise GatewayError("too_many_connections", text)

    def connected(self, access: Access) -> Access:
        """Return an access for a connection that stays open; GatewayError: there are too many."""
        self.check_room()
        access.usage.check_room()
        return access.slowed()

    async def wait_connection_end(
        self, principal: Principal, ended: asyncio.Future[bool] | None = None
    ) -> None:
        """Wait until a connection that begins now must end, by its own or the gateway's end.

        `ended` is set at the end, and to True by an operator who cuts the connection off; without
        it nobody can. Raises Unauthenticated if the credential has ended, and GatewayError if an
        operator has cut the connection off.
        """
        end = ended or asyncio.get_running_loop().create_future()

        def on_end() -> None:
            if not end.done():
                end.set_result(False)

        forget = self.at_connection_end(on_end)
        forget_principal = self.auth.at_end(principal, on_end)
        try:
            is_cut_off = await end
        finally:
            forget()
            forget_principal()
        if is_cut_off:
            raise cut_off()
        principal.check_valid()

    def at_connection_end(self, on_end: Callable[[], None]) -> Callable[[], None]:
        """Call `on_end` when a connection that begins now must end; return how to cancel that."""
        loop = asyncio.get_running_loop()
        longest_ms = self.limits.connection_ms_max
        timer = None if longest_ms is None else loop.call_later(longest_ms / 1000, on_end)
        self.draining.listeners.add(on_end)
        if self.draining.is_set():
            loop.call_soon(on_end)

        def forget() -> None:
            self.draining.listeners.discard(on_end)
            if timer is not None:
                timer.cancel()

        return forget

    def reconnect_after_ms(self) -> int:
        """Return when to connect again: spread out, so that not all clients come at once."""
        return self.random.randint(_RECONNECT_MS, 3 * _RECONNECT_MS)


HEADER = b"headgate-behind-ms"


class Behind:
    """ASGI middleware that adds `Headgate-Behind-Ms` to the answers of a standby."""

    def __init__(self, app: ASGIApp, bucket: Callable[[], BucketStatus | None]) -> None:
        self._app, self._bucket = app, bucket

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        bucket = self._bucket()
        if scope["type"] != "http" or bucket is None or bucket.role is not LeaderRole.STANDBY:
            await self._app(scope, receive, send)
            return

        async def send_with_age(message: Message) -> None:
            bucket = self._bucket()
            if message["type"] == "http.response.start" and bucket is not None:
                known = "unknown" if bucket.behind_ms is None else str(bucket.behind_ms)
                message["headers"] = [*message["headers"], (HEADER, known.encode())]
            await send(message)

        await self._app(scope, receive, send_with_age)
