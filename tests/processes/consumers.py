"""Consumers of one group over the three transports, who misbehave as consumers do.

They are killed, they stall while they hold entries, they read slowly, they fail. Each goes on under
its name until it is cancelled, in one life of the gateway after the other.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from socket import SO_LINGER, SOL_SOCKET
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

from tests.processes.checker import FAILING
from tests.processes.credentials import CREDENTIALS
from tests.processes.gateway import Gateway
from tests.processes.ledger import Channel, Id, Ledger, Settling, id_of
from tests.processes.wire import AT_ONCE, Wire

GROUP = "/v1/streams/orders/groups/billing"
RECEIPTS = "/v1/streams/orders/groups/receipts"
RETURNS = "/v1/streams/orders/groups/returns"
CLAIM_IDLE_MS = 300
STALL_S = 1.4 * CLAIM_IDLE_MS / 1000
SLOW_S = 0.03
SLOW_RECEIVE_BYTES = 4096
POLL_MS = 2000
CREDIT = 16
RETURN_CREDIT = 250

AWAY = ("unavailable", "not_leader")
"""Codes of problems that pass by themselves, or at another gateway."""

Events = list[tuple[str, Any]]

GONE = (OSError, EOFError, WebSocketException)
"""Errors of a consumer whose connection, or gateway, is no more."""


class DroppedError(ConnectionError):
    """The consumer dropped the connection itself."""


@dataclass
class Place:
    """The place of the gateway at the moment, if it is up."""

    url: str = ""
    redis_port: int = 0
    is_up: asyncio.Event = field(default_factory=asyncio.Event)

    def move_to(self, gateway: Gateway) -> None:
        """Note where a gateway is that serves."""
        self.url, self.redis_port = gateway.url, gateway.redis_port
        self.is_up.set()


@dataclass
class Chances:
    """The chances of failures, by each batch that a consumer is given."""

    killed: float = 0.04  # before it settles anything
    killed_in_ack: float = 0.02  # after its ack is sent, before the answer is read
    killed_waiting: float = 0.05  # a long poll that waits
    stalled: float = 0.03
    failed: float = 0.01  # of entries


class Consumer:
    """One consumer, or several on one connection."""

    def __init__(
        self, names: list[str], place: Place, ledger: Ledger, rng: random.Random, chances: Chances
    ) -> None:
        """Begin; an empty name is made by the gateway, anew for each connection."""
        self.names = names
        self.happened: Counter[str] = Counter()
        self.place = place
        self.ledger = ledger
        self.random = rng
        self.chances = chances
        self.channels: list[Channel] = []

    async def run(self) -> None:
        """Consume until cancelled."""
        while True:
            await self.place.is_up.wait()
            try:
                await self.serve(self.place.url)
            except DroppedError:
                pass
            except GONE:
                self.happened["connections lost"] += 1
            for channel in self.channels:
                self.ledger.end(channel)
            self.channels.clear()
            await asyncio.sleep(0)

    async def serve(self, url: str) -> None:
        """Consume over one connection, until it ends."""
        raise NotImplementedError

    def drop(self) -> None:
        """Drop the connection; not all kills are told to the other side."""
        raise NotImplementedError

    def open(self, name: str) -> Channel:
        self.channels.append(self.ledger.open(name))
        return self.channels[-1]

    def deliver(self, entries: list[dict[str, Any]], channel: Channel, sent_after: int) -> None:
        for entry in entries:
            entry_id = id_of(entry["id"])
            self.ledger.deliver(entry_id, entry["deliveries"], channel, sent_after)
            if self.ledger.appended.get(entry_id, entry["fields"]["v"]) != entry["fields"]["v"]:
                self.ledger.wrong_values.append(entry_id)

    def chance(self, what: str) -> bool:
        is_now: bool = self.random.random() < getattr(self.chances, what)
        self.happened[what] += is_now
        return is_now

    def die(self) -> None:
        """Drop the connection, having noted it: nothing sent so far is known to arrive."""
        for channel in self.channels:
            self.ledger.end(channel)
        self.drop()
        raise DroppedError

    async def look(self, entries: list[dict[str, Any]]) -> dict[str, list[str]]:
        """Handle entries; returns the ids to ack and to nack."""
        if self.chance("killed"):
            self.die()
        if self.chance("stalled"):
            await asyncio.sleep(STALL_S)
        kinds: dict[str, list[str]] = {"nack": [], "ack": []}
        for entry in entries:
            fails = entry["fields"]["v"].startswith(FAILING) or self.chance("failed")
            kinds["nack" if fails else "ack"].append(entry["id"])
        return {kind: ids for kind, ids in kinds.items() if ids}

    def settle(self, kind: str, ids: list[str], consumer: str) -> Settling:
        return self.ledger.settle(consumer, kind, list(map(id_of, ids)))

    async def post(self, wire: Wire, kind: str, ids: list[str], consumer: str) -> None:
        """Settle by a request of its own."""
        settling = self.settle(kind, ids, consumer)
        body = {"ids": ids, **({"mode": "fail"} if kind == "nack" else {})}
        await wire.send("POST", f"{GROUP}/{kind}?consumer={consumer}", body)
        if self.chance("killed_in_ack"):
            self.die()
        self.ledger.answer(settling, outcomes_of(await wire.answer()))


class Poller(Consumer):
    """Long polls, and acks by POST."""

    wire: Wire

    async def serve(self, url: str) -> None:
        [name] = self.names
        self.wire = await Wire.open(url)
        try:
            while True:
                channel = self.open(name)
                body = {"limit": self.random.randint(1, CREDIT), "wait_ms": POLL_MS}
                await self.wire.send("POST", f"{GROUP}/read?consumer={name}", body)
                if self.chance("killed_waiting"):
                    await asyncio.sleep(self.random.uniform(0, 0.01))
                    self.die()
                entries = (await self.wire.answer())["entries"]
                self.deliver(entries, channel, channel.opened_at)
                channel.is_read = True
                self.channels.remove(channel)  # answered: it cannot end any more
                for kind, ids in (await self.look(entries)).items() if entries else ():
                    await self.post(self.wire, kind, ids, name)
        finally:
            self.wire.close()

    def drop(self) -> None:
        self.wire.drop()


class EventReader(Consumer):
    """Server-Sent Events, and acks by POST on another connection."""

    wires: list[Wire]

    def __init__(self, *args: Any, is_slow: bool = False) -> None:
        super().__init__(*args)
        self.is_slow = is_slow

    async def serve(self, url: str) -> None:
        [name] = self.names
        receive_bytes = SLOW_RECEIVE_BYTES if self.is_slow else None
        self.wires = []
        try:
            self.wires.append(await Wire.open(url, receive_bytes=receive_bytes))
            self.wires.append(await Wire.open(url))
            who = f"&consumer={name}" if name else ""
            opened_at = self.ledger.tick()
            await self.wires[0].send("GET", f"{GROUP}/events?credit={CREDIT}{who}")
            channel: Channel | None = None
            async for events in self.wires[0].events():
                if channel is None:
                    [(kind, ready)] = events
                    assert kind == "ready", events
                    channel = self.open(ready["consumer"])
                    channel.opened_at = opened_at
                check_problems(events)
                await self._take([data for kind, data in events if kind == "entry"], channel)
        finally:
            for wire in self.wires:
                wire.close()

    async def _take(self, entries: list[dict[str, Any]], channel: Channel) -> None:
        self.deliver(entries, channel, channel.opened_at)
        if self.is_slow:
            await asyncio.sleep(SLOW_S * len(entries))
        if entries:
            for kind, ids in (await self.look(entries)).items():
                await self.post(self.wires[1], kind, ids, channel.consumer)

    def drop(self) -> None:
        for wire in self.wires:
            wire.drop()


class _Listener(Consumer):
    """Server-Sent Events of a group whose entries are never acknowledged by a request."""

    wire: Wire

    async def listen(self, url: str, path: str, **headers: str) -> AsyncIterator[Events]:
        """Yield the events of one connection, a part at a time; there may be no end to them."""
        opened_at = self.ledger.tick()
        self.wire = await Wire.open(url)
        try:
            await self.wire.send("GET", f"{path}&consumer={self.names[0]}", headers=headers)
            self.open(self.names[0]).opened_at = opened_at
            async for events in self.wire.events():
                check_problems(events)
                if any(kind == "entry" for kind, _ in events) and self.chance("killed"):
                    self.die()  # what has just come is as good as lost on the way
                yield events
        finally:
            self.wire.close()

    def drop(self) -> None:
        self.wire.drop()


class ReceiptReader(_Listener):
    """A reader whose entries are settled as they are sent. A part acknowledges the one before."""

    async def serve(self, url: str) -> None:
        sent: list[str] = []
        async for events in self.listen(url, f"{RECEIPTS}/events?ack=on_receipt"):
            if sent:
                settling = self.settle("ack", sent, self.names[0])
                settling.sent_at = self.channels[0].opened_at  # no later than the entries
                self.ledger.answer(settling, dict.fromkeys(settling.ids, "acked"))
            [channel] = self.channels
            entries = [data for kind, data in events if kind == "entry"]
            self.deliver(entries, channel, channel.opened_at)
            sent = [entry["id"] for entry in entries]


class ReturningReader(_Listener):
    """A browser: what it has seen is done with once it comes back and says so."""

    last = ""

    async def serve(self, url: str) -> None:
        headers = {"Last-Event-ID": self.last} if self.last else {}
        path = f"{RETURNS}/events?ack=on_reconnect&credit={RETURN_CREDIT}"
        is_first = True
        async for events in self.listen(url, path, **headers):
            [channel] = self.channels
            entries = [data for kind, data in events if kind == "entry"]
            self.deliver(entries, channel, channel.opened_at)
            if entries:
                self.last, is_first = entries[-1]["id"], False
            elif not is_first and not events:  # a heartbeat
                self.die()  # or the last ones would not be acknowledged before the next ones


class SocketReader(Consumer):
    """Several consumers on one WebSocket."""

    socket: ClientConnection

    def __init__(self, *args: Any, is_slow: bool = False, keeps: bool = False) -> None:
        super().__init__(*args)
        self.is_slow = is_slow
        self.keeps = keeps

    async def serve(self, url: str) -> None:
        at = url.replace("http://", "ws://") + "/v1/ws"
        opened_at = self.ledger.tick()
        headers = CREDENTIALS.headers
        async with connect(
            at, additional_headers=headers, compression=None, ping_interval=None, close_timeout=1
        ) as socket:
            self.socket = socket
            self._sent_after = opened_at
            self._channel_of: dict[str, Channel] = {}
            self._unanswered: dict[str, Settling] = {}
            for sub, name in enumerate(self.names):
                frame = {"stream": "orders", "group": "billing", "auto_credit": True}
                frame |= {"on_disconnect": "keep"} if self.keeps else {}
                who = {"consumer": name} if name else {}
                await self._send(
                    "subscribe", str(sub), rid=f"s{sub}", credit=CREDIT, **frame, **who
                )
            async for text in socket:
                await self._take(json.loads(text), opened_at)

    async def _take(self, frame: dict[str, Any], opened_at: int) -> None:
        match frame["type"]:
            case "subscribed":
                channel = self.open(frame["consumer"])
                channel.opened_at = opened_at
                self._channel_of[frame["sub"]] = channel
            case "entries":
                entries, channel = frame["entries"], self._channel_of[frame["sub"]]
                self.deliver(entries, channel, self._sent_after)
                if self.is_slow:
                    await asyncio.sleep(SLOW_S * len(entries))
                for kind, ids in (await self.look(entries)).items():
                    settling = self.settle(kind, ids, channel.consumer)
                    self._unanswered[str(settling.sent_at)] = settling
                    await self._send(kind, frame["sub"], rid=str(settling.sent_at), ids=ids)
                    if self.chance("killed_in_ack"):
                        self.die()
            case "acked" | "ok":
                settling = self._unanswered.pop(frame["rid"])
                self.ledger.answer(settling, outcomes_of(frame))
                self._sent_after = max(self._sent_after, settling.sent_at)
            case "problem" if frame["problem"]["code"] in AWAY:
                raise ConnectionError(frame["problem"]["detail"])
            case kind:
                assert kind in ("welcome", "state", "claimed", "draining"), frame

    async def _send(self, kind: str, sub: str, **members: Any) -> None:
        await self.socket.send(json.dumps({"type": kind, "sub": sub, **members}))

    def drop(self) -> None:
        end = self.socket.transport.get_extra_info("socket")
        if end is not None and end.fileno() >= 0 and self.random.random() < 0.5:
            end.setsockopt(SOL_SOCKET, SO_LINGER, AT_ONCE)
        self.socket.transport.abort()


def check_problems(events: Events) -> None:
    """Take it for the end of the connection that the servers of a gateway are not there."""
    for kind, problem in events:
        if kind == "problem":
            assert problem["code"] in AWAY, problem
            raise ConnectionError(problem["detail"])


def outcomes_of(answer: dict[str, Any]) -> dict[Id, str]:
    return {id_of(result["id"]): result["outcome"] for result in answer["results"]}


def consumers(place: Place, ledger: Ledger, rng: random.Random, chances: Chances) -> list[Consumer]:
    """Return consumers of one group: seven poll, five read events, the others have sockets.

    Two connections go by the same name, and one leaves what it holds to its next connection.
    """
    shared = place, ledger, rng, chances
    names = [[f"p{number}"] for number in range(7)]
    started: list[Consumer] = [Poller(name, *shared) for name in names]
    started += [EventReader([f"e{number}"], *shared) for number in range(3)]
    started += [EventReader([""], *shared), EventReader(["slow-e"], *shared, is_slow=True)]
    started += [SocketReader([f"w{n}.0", f"w{n}.1"], *shared) for n in range(2)]
    started += [SocketReader(["w2.0", ""], *shared)]
    started += [SocketReader(["twin"], *shared) for _ in range(2)]
    started += [SocketReader(["keeper"], *shared, keeps=True)]
    return [*started, SocketReader(["slow-w.0", "slow-w.1"], *shared, is_slow=True)]


def listeners(
    place: Place, receipts: Ledger, returns: Ledger, rng: random.Random, chances: Chances
) -> list[Consumer]:
    """Return two consumers of each group that is only listened to."""
    done = [ReceiptReader([f"r{number}"], place, receipts, rng, chances) for number in range(2)]
    back = [ReturningReader([f"o{number}"], place, returns, rng, chances) for number in range(2)]
    return [*done, *back]
