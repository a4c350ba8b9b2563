"""The hub and members over real sockets, the socket of an engine, and processes that hang."""

import asyncio
import logging
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from headgate.app.workers.channel import Beat, Channel, Orders
from headgate.app.workers.child import SILENT_LOOKS_MAX, Child, Heartbeats
from headgate.app.workers.engine_socket import EngineSocket, InUse
from headgate.app.workers.hub import Hub, Member
from tests.conditions import WITHIN_S, until
from tests.virtual_time import in_virtual_time


def member_at(there: socket.socket, number: int = 1) -> Member:
    orders = Orders(b"", number, 2, [], [], None, b"", is_first=True, staged_dir=None, stack=-1)
    return Member(orders, there)


async def member_of(hub: Hub, number: int, *, is_engine: bool = False) -> Member:
    """Let a process take part."""
    here, there = socket.socketpair()
    member, gone = member_at(there, number), partial(hub.leave, number)
    channel = await Channel.open(here, lambda frame: hub.take(number, frame), gone)
    await member.open(lambda _: None)
    hub.enter(number, channel, is_engine=is_engine)
    return member


@asynccontextmanager
async def hub_with(*numbers: int) -> AsyncIterator[tuple[Hub, list[Member]]]:
    hub = Hub()
    members = [await member_of(hub, number) for number in numbers]
    yield hub, members
    for member in members:
        leave(member)


def leave(member: Member) -> None:
    """End a process."""
    if member._channel is not None:
        member._channel.close()


def answer(number: int, body: bytes) -> bytes:
    return body + b"%d" % number


async def test_an_announcement_reaches_all_others_in_order() -> None:
    async with hub_with(1, 2, 3) as (_, members):
        heard: list[list[tuple[int, bytes]]] = [[], [], []]
        for member, own in zip(members, heard, strict=True):
            member.on_announcement("topic", lambda *what, own=own: own.append(what))
        for body in (b"a", b"b"):
            await members[0].announce("topic", body)
        await until(lambda: sum(map(len, heard)) == 4)
    assert heard == [[], [(1, b"a"), (1, b"b")], [(1, b"a"), (1, b"b")]]


@in_virtual_time
async def test_a_question_gathers_the_answers_of_those_who_answer_in_time() -> None:
    async with hub_with(1, 2, 3) as (_, members):
        for member in members:
            member.on_question("all", partial(answer, member.number))
        assert sorted(await members[0].gather("all", b"x", within_s=WITHIN_S)) == [b"x2", b"x3"]
        members[1].on_question("who", lambda _: b"2")
        assert await members[0].gather("who", b"", within_s=0.2) == [b"2"]  # 3 says nothing
        gathering = asyncio.create_task(members[0].gather("who", b"", within_s=WITHIN_S))
        leave(members[2])
        assert await gathering == [b"2"]


async def test_the_hub_answers_for_all_and_asks_the_engine_as_well() -> None:
    async with hub_with(1, 2) as (hub, members):
        engine = await member_of(hub, 9, is_engine=True)
        for member in (*members, engine):
            member.on_question("count", partial(answer, member.number))

        async def total(body: bytes, within_s: float) -> bytes:
            answers = await hub.ask_all("count", body, within_s)
            return b",".join(answers[number] for number in sorted(answers))

        hub.on_question("count", total)
        assert await members[0].gather("count", b"", within_s=WITHIN_S) == [b"1,2,9"]
        leave(engine)


async def test_arrivals_and_departures_are_noted() -> None:
    async with hub_with(1) as (hub, [first]):
        arrivals: list[int] = []
        departures: list[int] = []
        first.on_arrival(lambda: arrivals.append(1))
        first.on_departure(departures.append)
        second = await member_of(hub, 2)
        second.on_arrival(lambda: arrivals.append(2))  # the first has not heard it so far
        await until(lambda: sorted(arrivals) == [1, 2])
        leave(second)
        await until(lambda: departures == [2])


async def test_a_member_is_asked_to_end_when_its_supervisor_has_ended() -> None:
    here, there = socket.socketpair()
    member, stops = member_at(there), list[bool]()
    await member.open(stops.append)
    here.close()
    await until(lambda: stops == [False])
    assert await member.gather("who", b"", within_s=WITHIN_S) == []


@in_virtual_time
async def test_nobody_waits_for_a_supervisor_that_is_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("headgate.app.workers.hub._ROUND_S", 0.01)
    monkeypatch.setattr("headgate.app.workers.channel.TURN_S_MAX", 0.01)
    here, there = socket.socketpair()  # nobody reads what comes here
    member = member_at(there)
    await member.open(lambda _: None)
    async with asyncio.timeout(WITHIN_S):
        assert await member.gather("who", b"", within_s=0.01) == []
        for _ in range(4):
            await member.announce("news", bytes(2**20))
    leave(member)
    here.close()


def fail_to_hear(sender: int, body: bytes) -> None:
    raise MemoryError


@in_virtual_time
async def test_whoever_cannot_answer_stays_and_the_others_are_heard() -> None:
    def fail(body: bytes) -> bytes:
        raise OSError(24, "Too many open files")

    async with hub_with(1, 2, 3) as (_, members):
        members[1].on_question("sample", fail)
        members[2].on_question("sample", partial(answer, 3))
        members[1].on_announcement("news", fail_to_hear)
        await members[0].announce("news", b"")

        assert await members[0].gather("sample", b"", within_s=0.5) == [b"3"]

        members[1].on_question("sample", partial(answer, 2))
        answers = await members[0].gather("sample", b"", within_s=WITHIN_S)
        assert sorted(answers) == [b"2", b"3"]


async def test_a_question_that_the_hub_cannot_answer_is_over() -> None:
    async def fail(body: bytes, within_s: float) -> bytes:
        raise MemoryError

    async with hub_with(1) as (hub, [member]):
        hub.on_question("metrics", fail)
        async with asyncio.timeout(WITHIN_S):
            assert await member.gather("metrics", b"", within_s=WITHIN_S) == []


HANGS = """
import sys, time
from headgate.app.workers.child import answer_with_stack

def held_by_this():
    print(flush=True)
    time.sleep(1e6)

answer_with_stack(int(sys.argv[1]))
held_by_this()
"""


@pytest.fixture
async def child() -> AsyncIterator[Child]:
    stack, there = os.pipe()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", HANGS, str(there)), stdout=subprocess.PIPE, pass_fds=(there,)
    )
    os.close(there)
    assert process.stdout is not None
    await process.stdout.readline()
    child = Child(process, 1, "worker 1")
    child.watch_stack(stack)
    yield child
    child.kill()
    await child.until_end()
    os.close(stack)


def killed(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.levelno == logging.CRITICAL]


async def test_a_process_that_hangs_is_killed_and_its_stack_is_logged(
    child: Child, caplog: pytest.LogCaptureFixture
) -> None:
    heartbeats = Heartbeats(lambda: [child])
    for _ in range(SILENT_LOOKS_MAX):
        await heartbeats.look()
    assert child.is_running
    assert not killed(caplog)
    await heartbeats.look()

    assert await child.until_end() == -signal.SIGKILL
    [record] = killed(caplog)
    assert "held_by_this" in str(record.__dict__["stack"])


async def test_a_process_that_is_stopped_is_killed_without_a_stack(
    child: Child, caplog: pytest.LogCaptureFixture
) -> None:
    child.signal(signal.SIGSTOP)
    child.silent_looks = SILENT_LOOKS_MAX
    await Heartbeats(lambda: [child]).look()

    assert await child.until_end() == -signal.SIGKILL
    assert [record.__dict__["stack"] for record in killed(caplog)] == [[]]


async def test_a_process_that_is_heard_of_now_and_then_goes_on(child: Child) -> None:
    heartbeats = Heartbeats(lambda: [child])
    for _ in range(3):
        for _ in range(SILENT_LOOKS_MAX):
            await heartbeats.look()
        child._receive(Beat())
    assert child.is_running


def connect(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as worker:
        worker.connect(str(path))


def test_only_the_owner_may_connect_and_the_file_of_a_gateway_that_lives_stays(
    tmp_path: Path,
) -> None:
    first = EngineSocket(tmp_path / "data")

    assert first.path == tmp_path / "data" / "engine.sock"
    assert stat.S_IMODE(first.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(first.path.parent.stat().st_mode) == 0o700
    with pytest.raises(InUse, match="in use by another gateway"):
        EngineSocket(tmp_path / "data")
    connect(first.path)
    first.close()
    assert not first.path.exists()


def test_the_file_of_a_killed_gateway_is_replaced(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as before:
        before.bind(str(tmp_path / "engine.sock"))
    listening = EngineSocket(tmp_path)
    connect(listening.path)
    listening.close()


def test_a_socket_may_have_a_folder_of_its_own(tmp_path: Path) -> None:
    for directory in (tmp_path / ("x" * 120), None):  # its path is too long, or there is none
        listening = EngineSocket(directory)
        assert stat.S_IMODE(listening.path.parent.stat().st_mode) == 0o700
        listening.close()
        assert not listening.path.parent.exists()
