"""Peers that mean no good: each is answered as documented, and then it is as if it had not been.

Each kind of abuse is done on a gateway in its own process, which has them all. Others are served
meanwhile; afterwards its open files and its counts are where they were. The long form does each
some times, and looks at memory. What each refusal says is in `tests/api`.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from functools import cache
from pathlib import Path
from socket import SO_LINGER, SOL_SOCKET, socket
from typing import Any

import pytest
import pytest_asyncio

from tests.conditions import WITHIN_S, eventually
from tests.processes.credentials import CREDENTIALS
from tests.processes.gateway import Gateway
from tests.processes.raw_socket import CLOSE, CONT, PING, TEXT, RawSocket, deflated, frame
from tests.processes.wire import AT_ONCE, Wire, connected

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc"),
    pytest.mark.asyncio(loop_scope="module"),
]

ROUNDS = 2
MEASUREMENTS_MAX = 4
"""A leak shows in all of them; the allocator takes its memory in the first ones."""

GROWTH_BYTES_MAX = 2.5 * 2**20
"""A frame of 1 MiB that is kept for each round would be too much already."""

PEAK_BYTES_MAX = 32 * 2**20
"""A round's honest work for a moment: 4 MB of entries as JSON, or what one portion inflates to."""

FRAME_BYTES_MAX = 2**20
SETTINGS = {"log_level": "warning", "heartbeat_ms": 300, "send_ms_max": 500}
GROUP = "/v1/streams/jobs/groups/workers"
QUIET = "/v1/streams/quiet/groups/readers"
ENTRIES, ENTRY_BYTES = 200, 20_000
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Watched:
    """A gateway whose process is looked at."""

    def __init__(self, gateway: Gateway, wire: Wire, another: Wire) -> None:
        self.process = gateway
        self.wire = wire
        self._another = another
        self._ends: list[socket] = []

    async def connected(self, receive_bytes: int | None = None) -> socket:
        """Return a socket that is connected, and closed with all others if not before."""
        self._ends.append(await connected(self.process.url, receive_bytes))
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
        for end in self._ends:
            end.close()
        self._ends.clear()

    @property
    def file_count(self) -> int:
        return len(list(Path(f"/proc/{self.process.process_id}/fd").iterdir()))

    async def metric(self, pattern: str) -> float:
        """Return the sum of the metrics that match."""
        text: str = await self.wire.request("GET", "/metrics")
        return sum(map(float, re.findall(rf"^{pattern} (\S+)$", text, re.MULTILINE)))

    async def until_alone(self, file_count: int) -> None:
        """Return once nobody is connected but who asks."""
        async with asyncio.timeout(WITHIN_S):
            while (
                await self.metric("headgate_connections{.*}")
                or await self.metric("headgate_waiters")
                or self.file_count > file_count
            ):
                await asyncio.sleep(0.01)

    async def serve_another(self) -> None:
        """Another client writes and reads, and gets what it wrote."""
        ask = self._another.request
        await ask("POST", "/v1/streams/quiet/entries", {"fields": {"v": "1"}})
        got = await ask("POST", f"{QUIET}/read?consumer=me", {"wait_ms": 5000})
        [entry_id] = [entry["id"] for entry in got["entries"]]
        await ask("POST", f"{QUIET}/ack?consumer=me", {"ids": [entry_id]})

    async def suffer(self, abuse: Abuse, file_count: int) -> None:
        """Let it happen while another client is served; afterwards nobody is there."""
        going_on = asyncio.ensure_future(abuse(self))
        await self.serve_another()
        while not going_on.done():
            await self.serve_another()
        await going_on
        self.close()
        await self.until_alone(file_count)

    async def append(self, count: int, size_bytes: int) -> None:
        body = [{"fields": {"v": "x" * size_bytes}}] * count
        await self.wire.request("POST", "/v1/streams/jobs/entries/batch", body)

    async def until_stuck(self) -> None:
        """Return once somebody has not taken what was sent."""
        await eventually(lambda: self.metric("headgate_sockets_unsent_bytes"), bool)

    async def take_all(self, count: int, deliveries: int = 1) -> None:
        """The next consumer is given everything at once; 1: as if nobody had had it."""
        while count:
            body = {"limit": count, "wait_ms": 30_000}
            got = await self.wire.request("POST", f"{GROUP}/read?consumer=next", body)
            assert {entry["deliveries"] for entry in got["entries"]} == {deliveries}
            ids = [entry["id"] for entry in got["entries"]]
            await self.wire.request("POST", f"{GROUP}/ack?consumer=next", {"ids": ids})
            count -= len(ids)
        await self.wire.request("POST", "/v1/streams/jobs/trim", {"max_length": 0})


Abuse = Callable[[Watched], Awaitable[None]]


@asynccontextmanager
async def looked_at(data_dir: Path, **settings: object) -> AsyncIterator[Watched]:
    gateway = await Gateway.start(data_dir, {**SETTINGS, **settings})
    Gateway.running.discard(gateway)  # it outlives a test
    wire, another = await Wire.open(gateway.url), await Wire.open(gateway.url)
    for group in (GROUP, QUIET):
        await wire.request("PUT", group, {"start": "0", "create_stream": True})
    await another.request("GET", "/healthz")
    watched = Watched(gateway, wire, another)
    yield watched
    for each in (watched, wire, another):
        each.close()
    await gateway.stop()
    assert gateway.complaints() == []


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["open", "with a key"])
async def watched(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Watched]:
    bomb()  # it takes seconds on a busy machine, and connections would be closed as idle
    folder = tmp_path_factory.mktemp("watched")
    if request.param == "open":
        async with looked_at(folder / "data") as watched:
            yield watched
        return
    with CREDENTIALS.used(folder):
        async with looked_at(folder / "data") as watched:
            yield watched


async def refused(sending: Coroutine[Any, Any, None], raw: RawSocket, code: int) -> None:
    """See that a socket is closed with a code, whatever is still to be sent."""
    task = asyncio.ensure_future(sending)
    assert await raw.close_code() == code
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def requests_whose_answers_nobody_takes(gateway: Watched) -> None:
    end, full_count = await gateway.connected(), 0
    while full_count < 20:  # the gateway has had as many turns, and takes no more
        try:
            end.send(HEALTH * 1000)
            full_count = 0
        except BlockingIOError:
            full_count += 1
        await gateway.wire.request("GET", "/healthz")


async def a_header_without_end(gateway: Watched) -> None:
    end, loop = await gateway.asked(HEALTH.decode()[:-2] + "Cookie: "), asyncio.get_running_loop()
    sending = asyncio.ensure_future(loop.sock_sendall(end, b"x" * 10_000_000))
    assert (await loop.sock_recv(end, 2**16)).startswith(b"HTTP/1.1 431 ")
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)


async def a_message_without_end(gateway: Watched) -> None:
    raw = await gateway.raw()
    await raw.send(frame(TEXT, b"{", is_last=False))
    more = frame(CONT, b" " * 1000, is_last=False) * (2 * FRAME_BYTES_MAX // 1000)
    await refused(raw.send(more), raw, 1009)


async def fragments_of_nothing(gateway: Watched) -> None:
    raw = await gateway.raw()
    await raw.send(frame(TEXT, b'{"type":"ping"', is_last=False))
    await raw.send(frame(CONT, is_last=False) * 100_000)
    await raw.send(frame(CONT, b"}"))
    await raw.next("pong")


@cache
def bomb() -> bytes:
    """Return something small that inflates to 100 MiB."""
    return deflated(bytes(100 * 2**20))


async def a_bomb_in_fragments(gateway: Watched) -> None:
    raw = await gateway.raw(is_small=True)
    pieces = [bomb()[at : at + 100] for at in range(0, len(bomb()), 100)]
    await raw.send(frame(TEXT, pieces[0], is_last=False, is_small=True))
    more = b"".join(frame(CONT, piece, is_last=False) for piece in pieces[1:])
    await refused(raw.send(more), raw, 1009)


async def bombs_just_small_enough(gateway: Watched) -> None:
    """All of them fit into what is read at once."""
    raw = await gateway.raw(is_small=True)
    almost = b'{"type":"ping","rid":"' + b"x" * (FRAME_BYTES_MAX - 100) + b'"}'
    await raw.send(frame(TEXT, deflated(almost), is_small=True) * 100)
    for _ in range(100):
        while (await raw.frame()).opcode == PING:
            pass
    raw.reset()


async def pings_whose_answers_nobody_takes(gateway: Watched) -> None:
    raw = await gateway.raw(receive_bytes=4096)
    with suppress(ConnectionError):
        while True:
            await raw.send(frame(PING, b"x" * 125) * 1000)


async def not_the_protocol(gateway: Watched) -> None:
    """No UTF-8, no mask, an unknown opcode, a fragmented ping, a continuation of nothing."""
    for data, code in (
        (frame(TEXT, b"\xff"), 1007),
        (frame(TEXT, b"\xc3", is_last=False) + frame(CONT, b"("), 1007),
        (b"\x81\x02{}", 1002),
        (frame(5, b"?"), 1002),
        (frame(PING, is_last=False), 1002),
        (frame(CONT, b"x"), 1002),
        (frame(TEXT, b"\xff") + frame(CLOSE, b"\x03\xe8"), 1000),
    ):
        raw = await gateway.raw()
        await refused(raw.send(data), raw, code)


async def acks_of_what_was_never_delivered(gateway: Watched) -> None:
    await gateway.append(1, 10)
    raw = await gateway.raw(f"{GROUP}/ws?consumer=liar")
    [held] = (await raw.next("entries"))["entries"]
    ids = [f"1-{number}" for number in range(10_000)]
    await raw.say(type="ack", rid="a", ids=ids)
    answer = await raw.next("acked")
    assert {result["outcome"] for result in answer["results"]} == {"not_pending"}
    await raw.say(type="ack", rid="b", ids=[*ids, "2-0"])
    assert (await raw.next("problem"))["rid"] == "b"
    await raw.say(type="ack", rid="c", ids=[held["id"]] * 10_000)
    answer = await raw.next("acked")
    outcomes = [result["outcome"] for result in answer["results"]]
    assert (outcomes[0], set(outcomes[1:])) == ("acked", {"not_pending"})
    raw.reset()


def request_of(path: str, headers: str = "") -> str:
    """Return a request of somebody who may ask."""
    headers += CREDENTIALS.header_lines
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n"


async def entries_that_are_not_read(gateway: Watched) -> None:
    """One byte a second is nothing: it does not even open the window."""
    place = f"consumer=slow&credit={ENTRIES}"
    await gateway.append(ENTRIES, ENTRY_BYTES)
    await gateway.raw(f"{GROUP}/ws?{place}", receive_bytes=4096)
    await gateway.until_stuck()
    await gateway.take_all(ENTRIES)

    await gateway.append(ENTRIES, ENTRY_BYTES)
    await gateway.asked(request_of(f"{GROUP}/events?{place}", "Accept: text/event-stream\r\n"))
    await gateway.until_stuck()
    await gateway.take_all(ENTRIES)


async def an_answer_that_is_not_read(gateway: Watched) -> None:
    """Nothing is held by it but memory, and that is what the system ends it for."""
    await gateway.append(ENTRIES, ENTRY_BYTES)
    file_count = gateway.file_count
    await gateway.asked(request_of(f"/v1/streams/jobs/entries?limit={ENTRIES}"))
    await gateway.take_all(ENTRIES)
    await gateway.until_alone(file_count)


async def connections_that_come_and_go(gateway: Watched) -> None:
    for _ in range(3):
        for end in [await gateway.connected() for _ in range(100)]:
            end.close()
        for _ in range(100):
            end = await gateway.asked("GET /v1/ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: webso")
            end.setsockopt(SOL_SOCKET, SO_LINGER, AT_ONCE)
            end.close()
        for raw in await asyncio.gather(*(gateway.raw(f"{GROUP}/ws") for _ in range(100))):
            raw.reset()


async def credentials_that_are_not_valid(gateway: Watched) -> None:
    """Each is another one, so none of them is remembered."""
    if not CREDENTIALS.headers:
        return
    wire = await Wire.open(gateway.process.url)
    for number in range(300):
        token = f"hg_{number:010}_{'a' * 52}" if number % 2 else f"{'e' * 4000}.{number}.s"
        await wire.send("GET", "/v1/streams", headers={"Authorization": f"Bearer {token}"})
        with pytest.raises(AssertionError, match=r"unauthenticated|rate_limited"):
            await wire.answer()
    wire.close()


ABUSES: list[Abuse] = [
    requests_whose_answers_nobody_takes,
    a_header_without_end,
    a_message_without_end,
    fragments_of_nothing,
    a_bomb_in_fragments,
    bombs_just_small_enough,
    pings_whose_answers_nobody_takes,
    not_the_protocol,
    acks_of_what_was_never_delivered,
    entries_that_are_not_read,
    an_answer_that_is_not_read,
    connections_that_come_and_go,
    credentials_that_are_not_valid,
]
each_abuse = pytest.mark.parametrize("abuse", ABUSES, ids=lambda abuse: abuse.__name__)


@each_abuse
async def test_it_is_as_if_they_had_not_been(watched: Watched, abuse: Abuse) -> None:
    await watched.suffer(abuse, watched.file_count)


@pytest.mark.long
@each_abuse
async def test_they_leave_no_memory_behind(watched: Watched, abuse: Abuse) -> None:
    file_count, gateway = watched.file_count, watched.process
    await watched.suffer(abuse, file_count)
    before, grown = 0, 0
    for _ in range(MEASUREMENTS_MAX):
        before = gateway.memory_bytes()
        Path(f"/proc/{gateway.process_id}/clear_refs").write_text("5")  # noqa: ASYNC240  the peak
        for _ in range(ROUNDS):
            await watched.suffer(abuse, file_count)
        grown = gateway.memory_bytes() - before
        if grown < GROWTH_BYTES_MAX:
            break
    assert grown < GROWTH_BYTES_MAX
    assert gateway.memory_bytes("VmHWM") - before < PEAK_BYTES_MAX


async def test_a_client_that_answers_no_ping_is_closed_and_what_it_held_goes_on(
    tmp_path: Path,
) -> None:
    pings = {"ping_interval_ms": 300, "pong_wait_ms": 300}
    async with looked_at(tmp_path, **pings) as watched:
        await watched.append(1, 10)
        raw = await watched.raw(f"{GROUP}/ws?consumer=stopped")
        await raw.next("entries")
        await watched.take_all(1, deliveries=2)  # it had the entry, and may hang because of it
        assert await raw.close_code() == 1011
