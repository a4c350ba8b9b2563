"""Peers that mean no good: each is answered as documented, and then it is as if it had not been.

Each kind of abuse is done a few times on a gateway in its own process. Others are served meanwhile;
afterwards its memory, its open files and its counts are where they were.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from socket import SO_LINGER, SOL_SOCKET, socket

import pytest

from tests.processes.credentials import CREDENTIALS
from tests.processes.gateway import Gateway
from tests.processes.raw_socket import BINARY, CLOSE, CONT, PING, TEXT, RawSocket, deflated, frame
from tests.processes.wire import AT_ONCE, Wire, connected

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc"),
    pytest.mark.usefixtures("credentials"),
]

WARM_UPS = 2
ROUNDS = 2
MEASUREMENTS_MAX = 4
"""A leak shows in all of them; the allocator takes its memory in the first ones."""
GROWTH_MIB_MAX = 2.5
"""A frame of 1 MiB that is kept for each round would be too much already."""

PEAK_MIB_MAX = 32.0
"""A round's honest work for a moment: 4 MB of entries as JSON, or what one portion inflates to."""

FRAME_BYTES_MAX = 2**20
SEND_MS_MAX = 500
SETTINGS = {
    "log_level": "warning",
    "heartbeat_ms": 300,
    "send_ms_max": SEND_MS_MAX,
}
QUICK_PINGS = {"ping_interval_ms": 300, "pong_wait_ms": 300}
GROUP = "/v1/streams/jobs/groups/workers"
QUIET = "/v1/streams/quiet/groups/readers"
Abuse = Callable[["Watched"], Awaitable[None]]


class Watched:
    """A gateway whose process is looked at."""

    def __init__(self, gateway: Gateway, wire: Wire, another: Wire) -> None:
        self.url = gateway.url
        self.wire = wire
        self._another = another
        self._ends: list[socket] = []
        self._gateway = gateway
        self._proc = Path("/proc") / str(gateway.process_id)

    async def connected(self, receive_bytes: int | None = None) -> socket:
        """Return a socket that is connected, and closed at the end of the test if not before."""
        self._ends.append(await connected(self.url, receive_bytes))
        return self._ends[-1]

    async def asked(self, text: str) -> socket:
        """Return one that has sent a request, or part of one, and that nobody reads."""
        end = await self.connected(receive_bytes=4096)
        await asyncio.get_running_loop().sock_sendall(end, text.encode())
        return end

    async def raw(
        self, path: str = "/v1/ws", *, is_small: bool = False, receive_bytes: int | None = None
    ) -> RawSocket:
        return await RawSocket.open(await self.connected(receive_bytes), path, is_small=is_small)

    def close(self) -> None:
        self._another.close()
        self.wire.close()
        for end in self._ends:
            end.close()

    def memory_mib(self, name: str = "VmRSS") -> float:
        text = (self._proc / "status").read_text()
        match = re.search(rf"{name}:\s+(\d+) kB", text)
        assert match is not None
        return int(match[1]) / 1024

    def forget_peak(self) -> None:
        (self._proc / "clear_refs").write_text("5")

    @property
    def file_count(self) -> int:
        return len(list((self._proc / "fd").iterdir()))

    async def metrics(self) -> str:
        text: str = await self.wire.request("GET", "/metrics")
        return text

    async def open_counts(self) -> tuple[int, int]:
        """Return how many connections and blocked reads there are."""
        text = await self.metrics()
        counts = [
            sum(float(number) for number in re.findall(pattern, text, re.MULTILINE))
            for pattern in (r"^headgate_connections{.*} (\S+)$", r"^headgate_waiters (\S+)$")
        ]
        return int(counts[0]), int(counts[1])

    async def until_alone(self, file_count: int) -> None:
        """Return once nobody is connected but who asks."""
        async with asyncio.timeout(10):
            while await self.open_counts() != (0, 0) or self.file_count > file_count:
                await asyncio.sleep(0.01)

    async def serve_another(self) -> None:
        """Another client writes and reads, and gets what it wrote."""
        ask = self._another.request
        await ask("POST", "/v1/streams/quiet/entries", {"fields": {"v": "1"}})
        got = await ask("POST", f"{QUIET}/read?consumer=me", {"wait_ms": 5000})
        ids = [entry["id"] for entry in got["entries"]]
        assert len(ids) == 1
        await ask("POST", f"{QUIET}/ack?consumer=me", {"ids": ids})

    async def serve_others_during(self, abuse: Abuse) -> int:
        """Return the number of times another client was served meanwhile."""
        going_on = asyncio.ensure_future(abuse(self))
        count = 0
        while not going_on.done():
            await self.serve_another()
            count += 1
            await asyncio.sleep(0.01)
        await going_on
        return count

    async def append(self, count: int, size_bytes: int) -> None:
        body = [{"fields": {"v": "x" * size_bytes}}] * count
        await self.wire.request("POST", "/v1/streams/jobs/entries/batch", body)

    async def until_stuck(self) -> None:
        """Return once somebody has not taken what was sent."""
        async with asyncio.timeout(10):
            while "\nheadgate_sockets_unsent_bytes 0.0" in await self.metrics():
                await asyncio.sleep(0.001)

    async def take_all(self, count: int, deliveries: int = 1) -> None:
        """The next consumer is given everything at once; 1: as if nobody had had it."""
        left = count
        while left:
            body = {"limit": left, "wait_ms": 10_000}
            got = await self.wire.request("POST", f"{GROUP}/read?consumer=next", body)
            assert {entry["deliveries"] for entry in got["entries"]} == {deliveries}
            ids = [entry["id"] for entry in got["entries"]]
            await self.wire.request("POST", f"{GROUP}/ack?consumer=next", {"ids": ids})
            left -= len(ids)
        await self.wire.request("POST", "/v1/streams/jobs/trim", {"max_length": 0})

    def complaints(self) -> list[str]:
        return [line for line in self._gateway.log_lines if "ERROR" in line or "Traceback" in line]


@pytest.fixture
async def watched(tmp_path: Path, abuse: Abuse) -> AsyncIterator[Watched]:
    bomb()  # it takes seconds on a busy machine, and connections would be closed as idle
    pings = QUICK_PINGS if abuse is no_answer_to_pings else {}
    gateway = await Gateway.start(tmp_path, SETTINGS | pings)
    wire, another = await Wire.open(gateway.url), await Wire.open(gateway.url)
    for group in (GROUP, QUIET):
        await wire.request("PUT", group, {"start": "0", "create_stream": True})
    await another.request("GET", "/healthz")
    peer = Watched(gateway, wire, another)
    yield peer
    peer.close()
    await gateway.stop()


async def requests_whose_answers_nobody_takes(gateway: Watched) -> None:
    end = await gateway.connected()
    request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with suppress(TimeoutError):
        async with asyncio.timeout(0.5):
            await asyncio.get_running_loop().sock_sendall(end, request * 100_000)
    end.close()


async def requests_that_come_faster_than_their_answers(gateway: Watched) -> None:
    end = await gateway.connected()
    request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    loop = asyncio.get_running_loop()
    sending = asyncio.ensure_future(loop.sock_sendall(end, request * 100_000))
    with suppress(TimeoutError):
        async with asyncio.timeout(0.5):
            while True:
                await loop.sock_recv(end, 2**16)
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
    end.close()


async def a_header_without_end(gateway: Watched) -> None:
    end = await gateway.asked("GET /healthz HTTP/1.1\r\nHost: localhost\r\nCookie: ")
    loop = asyncio.get_running_loop()
    sending = asyncio.ensure_future(loop.sock_sendall(end, b"x" * 10_000_000))
    assert (await loop.sock_recv(end, 2**16)).startswith(b"HTTP/1.1 431 ")
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
    end.close()


async def too_big_a_frame(gateway: Watched) -> None:
    raw = await gateway.raw()
    sending = asyncio.create_task(raw.send(frame(TEXT, b"x" * 10 * 2**20)))
    assert await raw.close_code() == 1009
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
    raw.close()


async def a_message_in_a_thousand_fragments(gateway: Watched) -> None:
    raw = await gateway.raw()
    text = b'{"type":"ping",' + b" " * 985 + b'"rid":"whole"}'
    first, *between, last = [text[at : at + 1] for at in range(len(text))]
    await raw.send(
        frame(TEXT, first, is_last=False)
        + b"".join(frame(CONT, piece, is_last=False) for piece in between)
        + frame(CONT, last)
    )
    assert (await raw.next("pong"))["rid"] == "whole"
    raw.close()


async def a_message_without_end(gateway: Watched) -> None:
    raw = await gateway.raw()
    await raw.send(frame(TEXT, b"{", is_last=False))
    sending = asyncio.create_task(
        raw.send(frame(CONT, b" " * 1000, is_last=False) * (2 * FRAME_BYTES_MAX // 1000))
    )
    assert await raw.close_code() == 1009
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
    raw.close()


async def fragments_of_nothing(gateway: Watched) -> None:
    raw = await gateway.raw()
    await raw.send(frame(TEXT, b'{"type":"ping"', is_last=False))
    await raw.send(frame(CONT, is_last=False) * 100_000)
    await raw.send(frame(CONT, b"}"))
    await raw.next("pong")
    raw.close()


@cache
def bomb() -> bytes:
    """Return something small that inflates to 100 MiB."""
    return deflated(bytes(100 * 2**20))


async def a_bomb(gateway: Watched) -> None:
    raw = await gateway.raw(is_small=True)
    await raw.send(frame(TEXT, bomb(), is_small=True))
    assert await raw.close_code() == 1009
    raw.close()


async def a_bomb_in_fragments(gateway: Watched) -> None:
    raw = await gateway.raw(is_small=True)
    pieces = [bomb()[at : at + 100] for at in range(0, len(bomb()), 100)]
    await raw.send(frame(TEXT, pieces[0], is_last=False, is_small=True))
    sending = asyncio.create_task(
        raw.send(b"".join(frame(CONT, piece, is_last=False) for piece in pieces[1:]))
    )
    assert await raw.close_code() == 1009
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
    raw.close()


async def bombs_just_small_enough(gateway: Watched) -> None:
    """All of them fit into what is read at once."""
    raw = await gateway.raw(is_small=True)
    almost = b'{"type":"ping","rid":"' + b"x" * (FRAME_BYTES_MAX - 100) + b'"}'
    await raw.send(frame(TEXT, deflated(almost), is_small=True) * 100)
    for _ in range(100):
        got = await raw.frame()
        while got.opcode == PING:
            got = await raw.frame()
    raw.reset()


async def pings_whose_answers_nobody_takes(gateway: Watched) -> None:
    raw = await gateway.raw(receive_bytes=4096)
    flood = frame(PING, b"x" * 125) * 1000
    async with asyncio.timeout(20):
        while await is_open(raw.send(flood)):
            pass
    raw.close()


async def is_open(sending: Awaitable[None]) -> bool:
    """Tell whether the gateway has not ended the connection."""
    try:
        await sending
    except ConnectionError:
        return False
    return True


async def not_utf_8(gateway: Watched) -> None:
    for data in (frame(TEXT, b"\xff"), frame(TEXT, b"\xc3", is_last=False) + frame(CONT, b"(")):
        raw = await gateway.raw()
        await raw.send(data)
        assert await raw.close_code() == 1007
        raw.close()
    raw = await gateway.raw()
    await raw.send(frame(TEXT, b"\xff") + frame(CLOSE, b"\x03\xe8"))
    assert await raw.close_code() == 1000
    raw.close()


async def not_text(gateway: Watched) -> None:
    raw = await gateway.raw()
    await raw.send(frame(BINARY, b"x" * (FRAME_BYTES_MAX - 1)))
    assert await raw.close_code() == 4400
    raw.close()


async def not_the_protocol(gateway: Watched) -> None:
    """No mask, an unknown opcode, a fragmented ping, a continuation of nothing."""
    for data in (
        b"\x81\x02{}",
        frame(5, b"?"),
        frame(PING, is_last=False),
        frame(CONT, b"x"),
    ):
        raw = await gateway.raw()
        await raw.send(data)
        assert await raw.close_code() == 1002
        raw.close()


async def acks_of_what_was_never_delivered(gateway: Watched) -> None:
    await gateway.append(1, 10)
    raw = await gateway.raw(f"{GROUP}/ws?consumer=liar")
    [held] = (await raw.next("entries"))["entries"]
    ids = [f"1-{number}" for number in range(10_000)]
    for rid in "abc":
        await raw.say(type="ack", rid=rid, ids=ids)
        answer = await raw.next("acked")
        assert {result["outcome"] for result in answer["results"]} == {"not_pending"}
    await raw.say(type="ack", rid="d", ids=[*ids, "2-0"])
    assert (await raw.next("problem"))["rid"] == "d"
    await raw.say(type="ack", rid="e", ids=[held["id"]] * 10_000)
    answer = await raw.next("acked")
    outcomes = [result["outcome"] for result in answer["results"]]
    assert (outcomes[0], set(outcomes[1:])) == ("acked", {"not_pending"})
    raw.reset()


ENTRIES = 200
ENTRY_BYTES = 20_000


async def a_socket_that_is_not_read(gateway: Watched) -> None:
    """One byte a second is nothing: it does not even open the window."""
    await gateway.append(ENTRIES, ENTRY_BYTES)
    path = f"{GROUP}/ws?consumer=slow&credit={ENTRIES}"
    raw = await gateway.raw(path, receive_bytes=4096)
    await gateway.until_stuck()
    await gateway.take_all(ENTRIES)
    raw.close()


def request_of(path: str, headers: str = "") -> str:
    """Return a request of somebody who may ask."""
    headers += CREDENTIALS.header_lines
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n"


async def events_that_are_not_read(gateway: Watched) -> None:
    await gateway.append(ENTRIES, ENTRY_BYTES)
    path = f"{GROUP}/events?consumer=slow&credit={ENTRIES}"
    end = await gateway.asked(request_of(path, "Accept: text/event-stream\r\n"))
    await gateway.until_stuck()
    await gateway.take_all(ENTRIES)
    end.close()


async def an_answer_that_is_not_read(gateway: Watched) -> None:
    """Nothing is held by it but memory, and that is what the system ends it for."""
    await gateway.append(ENTRIES, ENTRY_BYTES)
    path = f"/v1/streams/jobs/entries?limit={ENTRIES}"
    file_count = gateway.file_count
    end = await gateway.asked(request_of(path))
    await gateway.take_all(ENTRIES)
    await gateway.until_alone(file_count)
    end.close()


async def no_answer_to_pings(gateway: Watched) -> None:
    await gateway.append(1, 10)
    raw = await gateway.raw(f"{GROUP}/ws?consumer=stopped")
    await raw.next("entries")
    await gateway.take_all(1, deliveries=2)  # it had the entry, and may hang because of it
    assert await raw.close_code() == 1011
    raw.close()


async def connections_that_say_nothing(gateway: Watched) -> None:
    for _ in range(10):
        ends = [await gateway.connected() for _ in range(100)]
        for end in ends:
            end.close()


async def half_handshakes(gateway: Watched) -> None:
    for _ in range(10):
        for _ in range(100):
            end = await gateway.asked("GET /v1/ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: webso")
            end.setsockopt(SOL_SOCKET, SO_LINGER, AT_ONCE)
            end.close()


async def handshakes_and_gone(gateway: Watched) -> None:
    for _ in range(5):
        raws = await asyncio.gather(*(gateway.raw(f"{GROUP}/ws") for _ in range(100)))
        for raw in raws:
            raw.reset()


async def credentials_that_are_not_valid(gateway: Watched) -> None:
    """Each is another one, so none of them is remembered."""
    wire = await Wire.open(gateway.url)
    for number in range(300):
        token = f"hg_{number:010}_{'a' * 52}" if number % 2 else f"{'e' * 4000}.{number}.s"
        await wire.send("GET", "/v1/streams", headers={"Authorization": f"Bearer {token}"})
        with pytest.raises(AssertionError, match=r"unauthenticated|rate_limited"):
            await wire.answer()
    wire.close()


WITH_KEY = [
    pytest.param(abuse, marks=pytest.mark.with_key, id=f"{abuse.__name__}-with_key")
    for abuse in (
        acks_of_what_was_never_delivered,
        credentials_that_are_not_valid,
        events_that_are_not_read,
        handshakes_and_gone,
    )
]


@pytest.mark.parametrize(
    "abuse",
    [
        requests_whose_answers_nobody_takes,
        requests_that_come_faster_than_their_answers,
        a_header_without_end,
        too_big_a_frame,
        a_message_in_a_thousand_fragments,
        a_message_without_end,
        fragments_of_nothing,
        a_bomb,
        a_bomb_in_fragments,
        bombs_just_small_enough,
        pings_whose_answers_nobody_takes,
        not_utf_8,
        not_text,
        not_the_protocol,
        acks_of_what_was_never_delivered,
        a_socket_that_is_not_read,
        events_that_are_not_read,
        an_answer_that_is_not_read,
        no_answer_to_pings,
        connections_that_say_nothing,
        half_handshakes,
        handshakes_and_gone,
        *WITH_KEY,
    ],
)
async def test_it_is_as_if_they_had_not_been(watched: Watched, abuse: Abuse) -> None:
    file_count = watched.file_count

    async def go_through(rounds: int) -> None:
        for _ in range(rounds):
            assert await watched.serve_others_during(abuse) > 0
            await watched.until_alone(file_count)

    await go_through(WARM_UPS)
    before_mib, grown_mib = 0.0, GROWTH_MIB_MAX
    for _ in range(MEASUREMENTS_MAX):
        before_mib = watched.memory_mib()
        watched.forget_peak()
        await go_through(ROUNDS)
        grown_mib = watched.memory_mib() - before_mib
        if grown_mib < GROWTH_MIB_MAX:
            break
    assert grown_mib < GROWTH_MIB_MAX
    assert watched.memory_mib("VmHWM") - before_mib < PEAK_MIB_MAX
    assert watched.complaints() == []
