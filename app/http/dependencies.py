"""Dependencies of routes: the backend, the limits, names from the path, the consumer."""

import asyncio
import logging
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

from fastapi import Depends, Header, Path, Query
from starlette.requests import HTTPConnection

from headgate.app.auth.access import Access
from headgate.app.auth.authenticator import Authenticator
from headgate.app.auth.credentials import Credentials
from headgate.app.auth.principal import Principal
from headgate.app.backends.port import Ability, Backend
from headgate.app.http.parameters import pure
from headgate.app.measuring.recorder import HistoryReader
from headgate.app.runtime import metric_sums
from headgate.app.runtime.connections import Connections
from headgate.app.runtime.siblings import SharedCounts, Siblings
from headgate.app.runtime.telemetry import Metrics
from headgate.app.runtime.threads import METRICS
from headgate.app.transport.sockets import Sockets
from headgate.app.wire.names import check_name
from headgate.app.wire.problems import GatewayError, cut_off
from headgate.app.wire.schemas.limits import Limits
from headgate.engine.errors import NotSupported, Unavailable

if TYPE_CHECKING:
    from headgate.app.tracing.tracing import Tracing  # its packages are in an extra

log = logging.getLogger("headgate")

_RECONNECT_MS = 1000
_METRICS_WITHIN_S = 5.0
_CONNECTIONS, _SOCKETS = "connections", "sockets"  # what is shared of them is how many there are
_FREE = "sockets free"


class DrainSignal(asyncio.Event):
    """Is set when the gateway is about to stop. A listener costs less than a task."""

    def __init__(self) -> None:
        """Start unset, with nobody listening."""
        super().__init__()
        self.listeners: set[Callable[[], None]] = set()

    def set(self) -> None:
        """Set it, and call the listeners."""
        super().set()
        for listener in list(self.listeners):
            try:
                listener()
            except Exception:  # the others, and the engine, end all the same
                log.exception("connection not asked to end")


@dataclass(frozen=True)
class Gateway:
    """The parts of one app; `main` puts them together, and routes use them."""

    backend: Backend
    limits: Limits
    metrics: Metrics
    sockets: Sockets
    auth: Authenticator
    credentials: Credentials
    history: HistoryReader
    random: random.Random  # for jitter and the names of nameless consumers
    siblings: Siblings | None = None  # other processes of this gateway
    tracing: "Tracing | None" = None  # if somebody collects traces
    draining: DrainSignal = field(default_factory=DrainSignal)  # it is about to stop
    died: asyncio.Event = field(default_factory=asyncio.Event)  # a task that the gateway needs has
    shared_counts: SharedCounts | None = field(default=None, init=False)
    connections: Connections = field(init=False)  # that stay open

    def __post_init__(self) -> None:
        """Make the parts that all processes share."""
        object.__setattr__(self, "connections", Connections(self.siblings))
        if self.siblings is not None:
            counts = SharedCounts(self.siblings, "connections", self._counts)
            object.__setattr__(self, "shared_counts", counts)
            self.sockets.elsewhere = lambda: counts.elsewhere(_SOCKETS)
            self.sockets.free_elsewhere = lambda: counts.elsewhere(_FREE)

    async def share(self) -> None:
        """Let the other processes know what is in use here, until cancelled."""
        if self.shared_counts is not None:
            await self.shared_counts.run()

    async def metrics_text(self) -> bytes:
        """Return the counts of all processes, in the Prometheus text format."""
        if self.siblings is None:
            return await self.metrics.text()
        within_s = _METRICS_WITHIN_S
        [answer] = await self.siblings.gather(metric_sums.METRICS, b"", within_s=within_s) or [b""]
        if not answer:
            raise Unavailable("the other processes of the gateway do not answer")
        return await METRICS.call_if_awaited(
            lambda: metric_sums.text_of(metric_sums.decode(answer))
        )

    def streams_bytes(self) -> int:
        """Return how much memory of this process the streams take."""
        if self.siblings is not None and self.siblings.has_engine:
            return 0
        return sum(self.backend.memory_bytes().values())

    def _counts(self) -> Mapping[str, int]:
        return {
            _CONNECTIONS: self.metrics.connection_count,
            _SOCKETS: self.sockets.count(),
            # A process that ends accepts nothing.
            _FREE: 0 if self.draining.is_set() else self.sockets.free_count,
        }

    def require(self, ability: Ability) -> None:
        """Check that the backend has an ability.

        Raises:
            GatewayError: it has not this ability.
        """
        if ability not in self.backend.abilities:
            raise GatewayError("not_supported", str(NotSupported(ability)))

    def check_room(self) -> None:
        """Refuse one more connection that stays open.

        Raises:
            GatewayError: there are as many as there may be.
        """
        limit = self.limits.connections_max
        shared = self.shared_counts
        elsewhere = 0 if shared is None else shared.elsewhere(_CONNECTIONS)
        if self.metrics.connection_count + elsewhere >= limit:
            text = f"too many open connections: the limit is {limit}"
            raise GatewayError("too_many_connections", text)

    def connected(self, access: Access) -> Access:
        """Return an access for a connection that stays open.

        Raises:
            GatewayError: there are as many as there may be, of all or of the principal.
        """
        self.check_room()
        access.usage.check_room()
        return access.slowed()

    async def wait_connection_end(
        self, principal: Principal, ended: asyncio.Future[bool] | None = None
    ) -> None:
        """Return when a connection that begins now must end: its time is over, or the gateway's.

        Args:
            principal: who follows over the connection.
            ended: is set at the end; to true by an operator who cuts the connection off. None:
                nobody can.

        Raises:
            Unauthenticated: the credential has ended.
            GatewayError: an operator has cut it off.
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
        """Call `on_end` when a connection that begins now must end; returns how to cancel that."""
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


def gateway_of(connection: HTTPConnection) -> Gateway:
    """Return the parts of the app that serves this connection."""
    gateway: Gateway = connection.scope["state"]["gateway"]
    return gateway


def access_of(connection: HTTPConnection) -> Access:
    """Return the backend as the one who asks may use it."""
    access: Access = connection.scope["access"]
    return access


def limits_of(connection: HTTPConnection) -> Limits:
    """Return the bounds."""
    return gateway_of(connection).limits


def stream_name(
    stream: Annotated[str, Path(description="Name of the stream.", examples=["orders"])],
) -> bytes:
    """Return the stream's name from the path."""
    return check_name(stream, pointer="/path/stream")


def group_name(
    group: Annotated[str, Path(description="Name of the group.", examples=["billing"])],
) -> bytes:
    """Return the group's name from the path."""
    return check_name(group, pointer="/path/group")


def consumer_path(
    consumer: Annotated[str, Path(description="Name of the consumer.", examples=["worker-1"])],
) -> bytes:
    """Return the consumer's name from the path."""
    return check_name(consumer, pointer="/path/consumer")


@pure
def named_consumer(
    consumer: Annotated[
        str | None, Query(description="Name of the consumer; or give it in `Headgate-Consumer`.")
    ] = None,
    headgate_consumer: Annotated[
        str | None, Header(alias="Headgate-Consumer", description="Name of the consumer.")
    ] = None,
) -> bytes | None:
    """Return the consumer that the request names by query or by header, if any.

    Raises:
        GatewayError: they differ.
    """
    # A header arrives as latin-1; what was sent is UTF-8.
    header = headgate_consumer and headgate_consumer.encode("latin-1").decode(errors="replace")
    if consumer is not None and header is not None and consumer != header:
        text = "the query and the Headgate-Consumer header name different consumers"
        raise GatewayError("consumer_conflict", text, pointer="/query/consumer")
    if consumer is not None:
        return check_name(consumer, pointer="/query/consumer")
    if header is not None:
        return check_name(header, pointer="/header/Headgate-Consumer")
    return None


def required_consumer(consumer: Annotated[bytes | None, Depends(named_consumer)]) -> bytes:
    """Return the consumer that the request names.

    Raises:
        GatewayError: the request does not say.
    """
    if consumer is None:
        text = "name the consumer: ?consumer=NAME or the header Headgate-Consumer: NAME"
        raise GatewayError("consumer_required", text, pointer="/query/consumer")
    return consumer


AccessDep = Annotated[Access, Depends(access_of)]
LimitsDep = Annotated[Limits, Depends(limits_of)]
StreamDep = Annotated[bytes, Depends(stream_name)]
GroupDep = Annotated[bytes, Depends(group_name)]
ConsumerPathDep = Annotated[bytes, Depends(consumer_path)]
ConsumerDep = Annotated[bytes, Depends(required_consumer)]
OptionalConsumerDep = Annotated[bytes | None, Depends(named_consumer)]


def check_at_most(value: int, limit: int, *, pointer: str) -> None:
    """Refuse a number above its bound.

    Raises:
        GatewayError: it is.
    """
    if value > limit:
        raise GatewayError("invalid_request", f"at most {limit}, not {value}", pointer=pointer)
