"""Limits the number of connections, and the bytes in transit through them."""

import asyncio
import logging
import resource
from collections.abc import Callable, Iterator
from functools import partial

from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.core import CounterMetricFamily, Metric

from headgate.app.runtime.connections import Departures
from headgate.app.runtime.telemetry import Collected
from headgate.app.wire.problems import GatewayError

log = logging.getLogger("headgate")

FILES_RESERVED = 64
"""Open files that connections leave to the engine: journal, snapshots, staged chunks, libraries."""

SOCKETS_MIN = 16

_WARN_EVERY_S = 10.0

IDLE_S_MIN = 5.0
"""A connection that waits for its next request for longer makes room for another one."""

UNREAD_BYTES_MIN = 16 * 1024
"""Unused bytes that any connection may have received; if it has more, all of them count."""

UNTAKEN_BYTES_MAX = 64 * 2**20
"""Replies that a client has not taken. Many send a whole pipeline before they read. Of an array
that is read page by page, it is a page."""

UNREAD_BYTES_MAX = 2**20
"""Part of these bytes that counts as unread. More counts as something large that arrives."""


def sockets_max_of(chosen: int | None, process_count: int = 1) -> int:
    """Return the limit over all processes: `chosen`, or what the system allows if less."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        soft = 2**20
    possible = max(soft - FILES_RESERVED, SOCKETS_MIN) * process_count
    return possible if chosen is None else min(chosen, possible)


class Sockets:
    def __init__(
        self,
        count_max: int,
        *,
        count_max_together: int | None = None,
        arriving_bytes_max: int,
        unsent_bytes_max: int,
    ) -> None:
        """Set the limits.

        `count_max_together` includes the other processes of the gateway. `arriving_bytes_max`
        bounds incomplete bodies, and what Redis clients have queued and watch. Half as much of
        frames and commands is allowed in addition, so that one client with large ones does not keep
        out all others. `unsent_bytes_max` bounds answers and frames that clients have not read.
        """
        self._count_max = count_max
        self._count_max_together = count_max_together or count_max
        self.count: Callable[[], int] = lambda: 0  # of open ones
        self.elsewhere: Callable[[], int] = lambda: 0  # likewise, at other processes
        self.free_elsewhere: Callable[[], int] = lambda: 0  # how many other processes may take
        self.listener_count = 1  # each may accept one in the same turn of the event loop
        self.on_full: Callable[[], None] = lambda: None  # called by each that comes meanwhile
        self.is_closing = False  # then a connection ends with the next answer
        self._arriving_bytes_max = arriving_bytes_max
        self._unsent_bytes_max = unsent_bytes_max
        self._arriving_bytes = 0
        self._unread_bytes = 0
        self._unsent: dict[asyncio.Transport, int] = {}  # the slowest one comes first
        self._unsent_bytes = 0
        self.idle: dict[Peer, float] = {}  # wait for the next request, the longest first; since
        self.idle_s_min = IDLE_S_MIN
        self._refused_count = 0
        self._cut_off_count = 0
        self._warn_not_before_s = 0.0
        self.departures = Departures()

    def watch(self, registry: CollectorRegistry) -> None:
        gauges = {
            "arriving_bytes": (
                "Bytes of request bodies that have not arrived completely.",
                lambda: self._arriving_bytes,
            ),
            "unread_bytes": (
                "Bytes of frames and commands that are not processed yet.",
                lambda: self._unread_bytes,
            ),
            "unsent_bytes": ("Bytes that clients have not read yet.", lambda: self._unsent_bytes),
        }
        for name, (text, value) in gauges.items():
            Gauge(f"headgate_sockets_{name}", text, registry=registry).set_function(value)
        registry.register(Collected(self._ended_families))

    def _ended_families(self) -> Iterator[Metric]:
        yield CounterMetricFamily(
            "headgate_sockets_refused", "Connections refused.", self._refused_count
        )
        yield CounterMetricFamily(
            "headgate_sockets_cut_off",
            "Slow connections that were closed to make room.",
            self._cut_off_count,
        )

    @property
    def free_count(self) -> int:
        return max(self._count_max - self._open_count(), 0)

    def is_left_to_siblings(self) -> bool:
        """Return whether new connections should wait until another process accepts them."""
        count_together = self._open_count() + self.elsewhere()
        return self.free_elsewhere() > 0 and count_together < self._count_max_together

    def has_room(self, uncounted: int = 0) -> bool:
        """Return whether a new connection may stay; if not, that is logged now and then.

        The connection that has waited for its next request for the longest time makes room, if it
        has waited for long enough.

        Listeners pause once this process is full and another is not. Those that accept a connection
        in the same turn cannot give it back, so these stay: they take a few of the reserved files.

        `uncounted` is 1 if the connection does not count among the open ones yet.
        """
        count = self._open_count() + uncounted
        count_max = self._count_max
        if count >= count_max:
            self.on_full()
            if self.free_elsewhere():
                count_max += self.listener_count - 1
        if count <= count_max and count + self.elsewhere() <= self._count_max_together:
            return True
        now_s = asyncio.get_running_loop().time()
        longest, since_s = next(iter(self.idle.items()), (None, now_s))
        if longest is not None and now_s - since_s >= self.idle_s_min:
            del self.idle[longest]
            longest.transport.close()
            return True
        self._refused_count += 1
        if now_s >= self._warn_not_before_s:
            self._warn_not_before_s = now_s + _WARN_EVERY_S
            facts = {"sockets_max": self._count_max_together, "refused": self._refused_count}
            log.warning("too many connections: new connections are closed", extra=facts)
        return False

    def _open_count(self) -> int:
        return self.count() - len(self.departures)  # these have ended, and wait for their turn

    def arrive(self, size_bytes: int) -> None:
        """Note a part of an incomplete body. Raises GatewayError over the limit."""
        if self._arriving_bytes + size_bytes > self._arriving_bytes_max:
            text = "too much data is arriving or queued: send the request again later"
            raise GatewayError("overloaded", text)
        self._arriving_bytes += size_bytes

    def arrived(self, size_bytes: int) -> None:
        """Note that parts are complete, or given up."""
        self._arriving_bytes -= size_bytes

    def unread(self, before_bytes: int, size_bytes: int) -> None:
        """Replace the noted size of unused frames or commands, or raise GatewayError."""
        after_bytes = self._unread_bytes + size_bytes - before_bytes
        if size_bytes > before_bytes and after_bytes > self._arriving_bytes_max // 2:
            text = "too much data is arriving: send it again later"
            raise GatewayError("overloaded", text)
        self._unread_bytes = after_bytes

    def stuck(self, transport: asyncio.Transport, waiting_bytes: int = 0) -> None:
        """Note the unsent bytes of a client that does not read; call it at each write.

        Over the limit, the connection that has not read for the longest time is closed, unless it
        is the only one.
        `waiting_bytes` are to be written once the client has read what was written.
        """
        size_bytes = transport.get_write_buffer_size() + waiting_bytes
        self._unsent_bytes += size_bytes - self._unsent.get(transport, 0)
        self._unsent[transport] = size_bytes
        while self._unsent_bytes > self._unsent_bytes_max and len(self._unsent) > 1:
            slowest = next(iter(self._unsent))
            self.free(slowest)
            self._cut_off_count += 1
            slowest.abort()

    def free(self, transport: asyncio.Transport) -> None:
        self._unsent_bytes -= self._unsent.pop(transport, 0)


class Peer(asyncio.Protocol):
    """A connection that counts against the limits; thousands may end at once."""

    transport: asyncio.Transport
    _sockets: Sockets
    _unread_bytes = 0  # as they were noted
    _arriving_bytes = 0  # likewise, of something large

    def note_arriving(self, size_bytes: int) -> None:
        """Count data that is not used yet, if it is much. Raises GatewayError over the limit."""
        if size_bytes <= UNREAD_BYTES_MIN and not self._unread_bytes:
            return  # as nearly always
        unread_bytes = min(size_bytes, UNREAD_BYTES_MAX) if size_bytes > UNREAD_BYTES_MIN else 0
        self._sockets.unread(self._unread_bytes, unread_bytes)
        self._unread_bytes = unread_bytes
        arriving_bytes = max(size_bytes - UNREAD_BYTES_MAX, 0)
        if arriving_bytes > self._arriving_bytes:
            self._sockets.arrive(arriving_bytes - self._arriving_bytes)
        else:
            self._sockets.arrived(self._arriving_bytes - arriving_bytes)
        self._arriving_bytes = arriving_bytes

    def pause_writing(self) -> None:
        super().pause_writing()
        self._sockets.stuck(self.transport)

    def resume_writing(self) -> None:
        self._sockets.free(self.transport)
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Release the counts, and clean up in its turn."""
        self._sockets.free(self.transport)
        self._sockets.idle.pop(self, None)
        self.note_arriving(0)
        self._sockets.departures.add(partial(self.leave, exc))

    def shutdown(self) -> None:
        """Close when the gateway stops, unless the connection has ended and waits for its turn."""
        if not self.transport.is_closing():
            super().shutdown()  # type: ignore[misc]  # uvicorn's protocols have one

    def leave(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
