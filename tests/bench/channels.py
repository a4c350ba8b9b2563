"""Channels: how soon messages are there that nobody keeps, beside nchan and Redis on one core."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from tests.bench import peers
from tests.bench.figures import Figure
from tests.bench.servers import serving
from tests.bench.sockets import LeanSocket, Watch, timer_of

SUBSCRIBERS = 1_000
ROUNDS = 3
SECONDS = 3.0

MANY_RATE = 1_000
"""Messages a second, each to another channel of a thousand."""

ONE_RATE = 20
"""Messages a second to one channel that has all subscribers: 20,000 deliveries a second."""


class RedisSocket(LeanSocket):
    """A connection to a Redis, which takes the same for a WebSocket."""

    def __init__(self, port: int) -> None:
        """Connect."""
        self._connect(port)
        self._early = b""

    def send(self, text: bytes) -> None:
        """Send a command."""
        self._socket.sendall(text)

    @classmethod
    def subscribed(cls, port: int, channel: int) -> Self:
        subscriber = cls(port)
        subscriber.send(_command(b"SUBSCRIBE", b"bench-%d" % channel))
        subscriber.read_until(b":1\r\n")
        return subscriber


@dataclass(frozen=True)
class Place:
    """A server: who subscribes to a channel of it, and who publishes."""

    subscriber: Callable[[int], LeanSocket]
    publisher: Callable[[int], LeanSocket]
    is_publisher_shared: bool  # for all channels
    wrap: Callable[[int, bytes], bytes]  # a message to a channel

    def message(self, channel: int, seq: int) -> bytes:
        return self.wrap(channel, b'{"temp":"21.37","hum":"64","seq":"%09d"}' % seq)


def measure() -> list[Figure]:
    """Return the delays of messages, to a thousand channels and to one, at each of the servers."""
    times: dict[tuple[str, str], list[list[float]]] = {}
    with serving("headgate") as port, peers.nchan() as nchan_port, peers.redis() as redis:
        places = {"headgate": _gateway(port)}
        if nchan_port is not None:
            places["nchan"] = _nchan(nchan_port)
        if redis is not None:
            places["Redis"] = _redis(redis.port)
        for number in range(ROUNDS):
            print(f"channels: round {number + 1} of {ROUNDS}", flush=True)
            for name, place in places.items():
                for kind, channels, rate in (
                    ("many", SUBSCRIBERS, MANY_RATE),
                    ("one", 1, ONE_RATE),
                ):
                    took_ms = delays_ms(place, channels, rate)
                    times.setdefault((name, kind), []).append(took_ms)
    return [*_figures("many", times), *_figures("one", times)]


def _figures(kind: str, times: dict[tuple[str, str], list[list[float]]]) -> list[Figure]:
    work = {
        "many": f"{MANY_RATE} messages/s to {SUBSCRIBERS} channels with a WebSocket each",
        "one": f"{ONE_RATE} messages/s to one channel with {SUBSCRIBERS} WebSockets",
    }[kind]
    figures = []
    for name, share in (("p50", 50), ("p99", 99)):
        at = {
            place: [statistics.quantiles(samples, n=100)[share - 1] for samples in rounds]
            for (place, what), rounds in times.items()
            if what == kind
        }
        for peer in ("nchan", "Redis"):
            ours, theirs = at["headgate"], at.get(peer, [])
            figures.append(Figure.of_rounds(f"{work}, {name}", ours, "ms", peer, theirs))
    return figures


def _gateway(port: int) -> Place:
    def subscriber(channel: int) -> LeanSocket:
        socket = LeanSocket(port, "/v1/ws")
        socket.send(b'{"type":"subscribe","sub":"b","channel":"bench-%d"}' % channel)
        socket.read_until(b'"subscribed"')
        return socket

    return Place(
        subscriber,
        lambda _: LeanSocket(port, "/v1/ws"),
        is_publisher_shared=True,
        wrap=lambda channel, data: (
            b'{"type":"publish","channel":"bench-%d","data":%b}' % (channel, data)
        ),
    )


def _nchan(port: int) -> Place:
    return Place(
        lambda channel: LeanSocket(port, f"/subscribe?id=bench-{channel}"),
        lambda channel: LeanSocket(port, f"/publish?id=bench-{channel}"),
        is_publisher_shared=False,
        wrap=lambda _, data: data,
    )


def _redis(port: int) -> Place:
    return Place(
        lambda channel: RedisSocket.subscribed(port, channel),
        lambda _: RedisSocket(port),
        is_publisher_shared=True,
        wrap=lambda channel, data: _command(b"PUBLISH", b"bench-%d" % channel, data),
    )


def _command(*words: bytes) -> bytes:
    return b"*%d\r\n%b" % (len(words), b"".join(b"$%d\r\n%b\r\n" % (len(w), w) for w in words))


def delays_ms(place: Place, channels: int, rate: int) -> list[float]:
    """Return the delays of messages to each subscriber, at a steady rate.

    Args:
        place: a server.
        channels: over which the subscribers are spread, and the messages in turn.
        rate: messages a second.
    """
    sent_at: list[float] = []
    times_ms: list[float] = []

    with Watch() as watch:
        for number in range(SUBSCRIBERS):
            watch.add(place.subscriber(number % channels), timer_of(sent_at, times_ms))
        publishers = [
            place.publisher(channel)
            for channel in range(1 if place.is_publisher_shared else channels)
        ]
        for publisher in publishers:
            watch.add(publisher, lambda data: None)
        total = int(rate * SECONDS)
        expected = total * SUBSCRIBERS // channels
        started = time.perf_counter()
        while len(times_ms) < expected:
            now = time.perf_counter()
            assert now < started + SECONDS + 30, "not everybody was sent everything"
            while len(sent_at) < min(int((now - started) * rate), total):
                seq = len(sent_at)
                channel = seq % channels
                sent_at.append(time.perf_counter())
                publishers[channel % len(publishers)].send(place.message(channel, seq))
            watch.take_ready(0.0005 if len(sent_at) < total else 0.1)
    return times_ms
