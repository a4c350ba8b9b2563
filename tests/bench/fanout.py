"""Fan-out: what one stream's entries cost that go to a hundred WebSockets."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.bench import peers
from tests.bench.figures import Figure
from tests.bench.servers import serving
from tests.bench.sockets import SEQ, LeanSocket, Watch, timer_of

SUBSCRIBERS = 100
PUBLISHERS = 32
ROUNDS = 3
SECONDS = 3.0
AHEAD_MAX = 2_000
"""Entries published that the slowest subscriber has not got yet: more are held back."""

RATE = 1_000
"""Entries a second, for the measurement of delays."""

_CREDIT = 65_536
_MARKER = b'"seq":"'


@dataclass(frozen=True)
class Place:
    """A server: its ways to subscribe and to publish, and its form of an entry."""

    port: int
    subscribe: str
    publish: str
    wrap: bytes  # around the entry's fields
    has_credit: bool
    publishers: int = PUBLISHERS

    def message(self, seq: int) -> bytes:
        return self.wrap % (b'{"temp":"21.37","hum":"64","seq":"%09d"}' % seq)


def measure() -> list[Figure]:
    """Return deliveries a second and how soon entries are there, here and at nchan."""
    with serving("headgate", fsync="everysec") as port, peers.nchan() as nchan_port:
        places = {"headgate": gateway(port)}
        if nchan_port is not None:
            places["nchan"] = nchan(nchan_port)
        turns = [gateway(port, stream) for stream in ("one", "other")]
        rates: dict[str, list[float]] = {name: [] for name in [*places, "in turn"]}
        took_ms: dict[str, list[list[float]]] = {name: [] for name in places}
        for place in places.values():
            _check_all_get_all(place)
        for number in range(ROUNDS):
            print(f"fanout: round {number + 1} of {ROUNDS}", flush=True)
            for name, place in places.items():
                rates[name].append(deliveries_per_second([place], SECONDS))
                took_ms[name].append(delays_ms(place, SECONDS / 2))
            rates["in turn"].append(deliveries_per_second(turns, SECONDS))
    return _figures(rates, took_ms)


def gateway(port: int, stream: str = "bench") -> Place:
    """Return a stream of the gateway at this port; it is there from now on."""
    append = b'{"type":"append","stream":"%s","entries":[{"fields":%%s}]}' % stream.encode()
    publisher = LeanSocket(port, "/v1/ws")
    publisher.send(append % b'{"first":"1"}')
    publisher.read_until(b'"appended"')
    publisher.close()
    path = f"/v1/streams/{stream}/ws?credit={_CREDIT}"
    return Place(port, path, "/v1/ws", append, has_credit=True)


def nchan(port: int) -> Place:
    """Return a channel of nchan at this port. Its subscribers get entries as they come."""
    return Place(port, "/subscribe?id=bench", "/publish?id=bench", b"%s", has_credit=False)


def new_nchan(port: int, name: str) -> Place:
    """Return a channel of nchan whose subscribers get all that was ever published in it.

    With several workers nobody knows when a subscription has begun in all of them. A message is
    lost if another worker has published one of the next second ("a message from the past"). So
    there is one publisher.
    """
    paths = f"/subscribe-all?id={name}", f"/publish?id={name}"
    return Place(port, *paths, b"%s", has_credit=False, publishers=1)


def _figures(rates: dict[str, list[float]], took_ms: dict[str, list[list[float]]]) -> list[Figure]:
    """Return a rate, a p50 and a p99, each of all rounds."""
    work = f"fan-out to {SUBSCRIBERS} WebSockets"
    ours, theirs = rates["headgate"], rates.get("nchan", [])
    figures = [Figure.of_rounds(work, ours, "deliveries/s", "nchan", theirs, ratio_at_least=1)]
    work = f"the same of two streams in turn, {SUBSCRIBERS // 2} each"
    figures.append(Figure.of_rounds(work, rates["in turn"], "deliveries/s"))
    for name, share in (("p50", 50), ("p99", 99)):
        at = {
            place: [statistics.quantiles(samples, n=100)[share - 1] for samples in rounds]
            for place, rounds in took_ms.items()
        }
        work = f"append → delivery, {RATE} entries/s, {name}"
        target = {"at_most": 10.0} if name == "p99" else {}
        ours, theirs = at["headgate"], at.get("nchan", [])
        figures.append(Figure.of_rounds(work, ours, "ms", "nchan", theirs, **target))
    return figures


@dataclass
class _Reader:
    """One subscriber: counts entries, and keeps its credit from running out."""

    socket: LeanSocket
    has_credit: bool
    count: int = 0
    _unreturned: int = 0
    _tail: bytes = b""

    def take(self, data: bytes) -> None:
        data = self._tail + data
        count = data.count(_MARKER)
        self._tail = data[-(len(_MARKER) - 1) :]
        self.count += count
        self._unreturned += count
        if self.has_credit and self._unreturned > _CREDIT // 2:
            self.socket.send(b'{"type":"credit","entries":%d}' % self._unreturned)
            self._unreturned = 0


@dataclass
class _Scene:
    """Subscribers and publishers of one server."""

    place: Place
    watch: Watch
    publishers: list[LeanSocket] = field(default_factory=list)
    published: int = 0

    def open_publishers(self, count: int) -> None:
        for _ in range(count):
            publisher = LeanSocket(self.place.port, self.place.publish)
            self.watch.add(publisher, lambda data: None)
            self.publishers.append(publisher)

    def subscribe(
        self, take_of: Callable[[LeanSocket], Callable[[bytes], None]], count: int = SUBSCRIBERS
    ) -> None:
        for _ in range(count):
            subscriber = LeanSocket(self.place.port, self.place.subscribe)
            if self.place.has_credit:
                subscriber.read_until(b'"caught_up"')
            self.watch.add(subscriber, take_of(subscriber))

    def publish(self) -> None:
        publisher = self.publishers[self.published % len(self.publishers)]
        publisher.send(self.place.message(self.published))
        self.published += 1


def _check_all_get_all(place: Place) -> None:
    """Publish in order from one place, and see that everybody gets everything in that order."""
    received: list[bytearray] = []

    def keep(_: LeanSocket) -> Callable[[bytes], None]:
        data = bytearray()
        received.append(data)
        return data.extend

    with Watch() as watch:
        scene = _Scene(place, watch)
        scene.open_publishers(1)
        scene.subscribe(keep)
        for _ in range(500):
            scene.publish()
        last = place.message(scene.published - 1)[-12:-2]
        ends = time.perf_counter() + 30
        while not all(last in data for data in received):
            assert time.perf_counter() < ends, "not everybody was sent everything"
            watch.take_ready(1)
    for data in received:
        assert [int(number) for number in SEQ.findall(data)] == list(range(scene.published))


def deliveries_per_second(places: Sequence[Place], seconds: float) -> float:
    """Return how many entries all subscribers got, each second. See `deliver`."""
    count, elapsed_s = deliver(places, seconds)
    return count / elapsed_s


def deliver(
    places: Sequence[Place], seconds: float, subscribers: int = SUBSCRIBERS
) -> tuple[int, float]:
    """Publish at all places in turn, as fast as everybody reads; the subscribers share them.

    The more subscribers there are, the fewer entries is the slowest of them behind.

    Returns:
        How many entries all of them got together, and how many seconds that took.
    """
    readers: list[_Reader] = []

    def reader_of(subscriber: LeanSocket) -> Callable[[bytes], None]:
        readers.append(_Reader(subscriber, places[0].has_credit))
        return readers[-1].take

    ahead_max = AHEAD_MAX * SUBSCRIBERS // subscribers // len(places)
    with Watch() as watch:
        scenes = [_Scene(place, watch) for place in places]
        for scene in scenes:
            scene.open_publishers(max(scene.place.publishers // len(places), 1))
            scene.subscribe(reader_of, subscribers // len(places))
        started = time.perf_counter()
        published = 0  # at each of the places
        while time.perf_counter() < started + seconds:
            slowest = min(reader.count for reader in readers)
            for _ in range(slowest + ahead_max - published):
                for scene in scenes:
                    scene.publish()
                published += 1
            watch.take_ready(0.1)
        while min(reader.count for reader in readers) < published:
            watch.take_ready(0.1)
        elapsed_s = time.perf_counter() - started
        assert {reader.count for reader in readers} == {published}
    return published * len(readers), elapsed_s


def delays_ms(place: Place, seconds: float) -> list[float]:
    """Return the delays of entries to each subscriber, at a steady rate."""
    sent_at: list[float] = []
    times_ms: list[float] = []

    with Watch() as watch:
        scene = _Scene(place, watch)
        scene.open_publishers(PUBLISHERS)
        scene.subscribe(lambda _: timer_of(sent_at, times_ms))
        started = time.perf_counter()
        total = int(RATE * seconds)
        while len(times_ms) < total * SUBSCRIBERS:
            now = time.perf_counter()
            assert now < started + seconds + 30, "not everybody was sent everything"
            due = min(int((now - started) * RATE), total)
            while scene.published < due:
                sent_at.append(time.perf_counter())
                scene.publish()
            watch.take_ready(0.0005 if due < total else 0.1)
    return times_ms
