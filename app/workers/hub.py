"""Passes on what the processes of a gateway share. It runs in the supervisor."""

from __future__ import annotations

import asyncio
import ctypes
import faulthandler
import itertools
import logging
import signal
import socket
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from headgate.app.workers.channel import (
    Announcement,
    AnswerFrame,
    AnswersFrame,
    Arrival,
    Beat,
    Channel,
    Departure,
    FailedFrame,
    Frame,
    Orders,
    Question,
    ReadyFrame,
    Stop,
    encode,
)

log = logging.getLogger("headgate")

WITHIN_S_MAX: Final = 30.0
"""No question waits longer for its answers."""


class _Gathering:
    def __init__(self, asked: set[int]) -> None:
        self.waiting_for = asked
        self.bodies: dict[int, bytes] = {}
        self.is_over = asyncio.Event()
        if not asked:
            self.is_over.set()

    def answer(self, member: int, body: bytes | None) -> None:
        """Note the answer of a member; None means that there will be none."""
        if member not in self.waiting_for:
            return
        self.waiting_for.discard(member)
        if body is not None:
            self.bodies[member] = body
        if not self.waiting_for:
            self.is_over.set()


class Hub:
    def __init__(self) -> None:
        self._workers: dict[int, Channel] = {}
        self._engines: dict[int, Channel] = {}  # they answer questions of the hub alone
        self._gatherings: dict[int, _Gathering] = {}
        self._numbers = itertools.count(1)
        self._topics: dict[str, Callable[[bytes, float], Awaitable[bytes]]] = {}
        self._answering: set[asyncio.Task[None]] = set()

    def on_question(self, topic: str, answer: Callable[[bytes, float], Awaitable[bytes]]) -> None:
        """Answer a topic here instead of asking the siblings; the float is a limit in seconds."""
        self._topics[topic] = answer

    def enter(self, number: int, channel: Channel, *, is_engine: bool) -> None:
        if is_engine:
            self._engines[number] = channel
            return
        self._workers[number] = channel
        if len(self._workers) > 1:  # neither side has heard what the other has announced so far
            for worker in self._workers.values():
                worker.send(Arrival())

    def leave(self, number: int) -> None:
        self._engines.pop(number, None)
        if self._workers.pop(number, None) is not None:
            for sibling in self._workers.values():
                sibling.send(Departure(number))
        for gathering in self._gatherings.values():
            gathering.answer(number, None)

    def take(self, sender: int, frame: Frame) -> None:
        match frame:
            case Announcement(topic, body):
                announcement = Announcement(topic, body, sender)
                for number, sibling in self._workers.items():
                    if number != sender:
                        sibling.send(announcement)
            case Question():
                task = asyncio.get_running_loop().create_task(self._answer(sender, frame))
                self._answering.add(task)
                task.add_done_callback(self._answering.discard)
            case AnswerFrame(number, body):
                gathering = self._gatherings.get(number)
                if gathering is not None:
                    gathering.answer(sender, body)

    async def ask_all(self, topic: str, body: bytes, within_s: float) -> dict[int, bytes]:
        return await self._ask(self._workers | self._engines, topic, body, within_s)

    async def _answer(self, sender: int, question: Question) -> None:
        within_s = min(question.within_s, WITHIN_S_MAX)
        bodies: list[bytes] = []  # whoever asks gets an answer in any case
        try:
            bodies = await self._bodies_for(sender, question, within_s)
        except Exception:
            log.exception("question not answered", extra={"topic": question.topic})
        channel = self._workers.get(sender)
        if channel is not None:
            channel.send(AnswersFrame(question.number, bodies))

    async def _bodies_for(self, sender: int, question: Question, within_s: float) -> list[bytes]:
        own_answer = self._topics.get(question.topic)
        if own_answer is not None:
            return [await own_answer(question.body, within_s)]
        others = {number: each for number, each in self._workers.items() if number != sender}
        return list((await self._ask(others, question.topic, question.body, within_s)).values())

    async def _ask(
        self, members: dict[int, Channel], topic: str, body: bytes, within_s: float
    ) -> dict[int, bytes]:
        number = next(self._numbers)
        gathering = self._gatherings[number] = _Gathering(set(members))
        try:
            for channel in members.values():
                channel.send(Question(number, topic, body))
            async with asyncio.timeout(within_s):
                await gathering.is_over.wait()
        except TimeoutError:
            pass
        finally:
            del self._gatherings[number]
        return gathering.bodies


BEAT_S: Final = 1.0

ORPHAN_S_MAX: Final = 5.0
"""Time for a process to end whose supervisor is gone: it holds the port, or the data directory."""

_ROUND_S: Final = 1.0
"""Time for a question to the supervisor, and for its answer, besides that of the siblings."""

_PR_SET_PDEATHSIG: Final = 1  # prctl(2)


class Member:
    """This process: `runtime.siblings.Siblings` over the control channel to the supervisor."""

    def __init__(
        self, orders: Orders, end: socket.socket, on_orphan: Callable[[], object] = lambda: None
    ) -> None:
        """Call `open` on the event loop. `on_orphan` is called when the supervisor is gone."""
        self.count = orders.worker_count
        self.number = orders.number
        self.has_engine = orders.engine_path is not None
        self._end = end
        self._channel: Channel | None = None
        self.is_orphan = False  # the supervisor is gone
        self._on_orphan = on_orphan
        self._on_stop: Callable[[bool], None] = lambda _: None
        self._announced: dict[str, list[Callable[[int, bytes], None]]] = {}
        self._answers: dict[str, Callable[[bytes], bytes]] = {}
        self._arrivals: list[Callable[[], None]] = []
        self._departures: list[Callable[[int], None]] = []
        self._gathered: dict[int, asyncio.Future[list[bytes]]] = {}
        self._numbers = itertools.count(1)

    async def open(self, on_stop: Callable[[bool], None]) -> None:
        """Take part from now on.

        `on_stop` is called when this process has to end, with whether another one replaces it. It
        may be called twice, as the supervisor may die.
        """
        self._on_stop = on_stop
        self._channel = await Channel.open(self._end, self._take, self._end_with_supervisor)
        kill_with_supervisor(is_so=False)  # from now on the channel tells
        self._beat()

    def ready(self) -> None:
        self._send(ReadyFrame())

    def on_announcement(self, topic: str, take: Callable[[int, bytes], None]) -> None:
        self._announced.setdefault(topic, []).append(take)

    def on_question(self, topic: str, answer: Callable[[bytes], bytes]) -> None:
        self._answers[topic] = answer

    def on_arrival(self, take: Callable[[], None]) -> None:
        self._arrivals.append(take)

    def on_departure(self, take: Callable[[int], None]) -> None:
        self._departures.append(take)

    async def announce(self, topic: str, body: bytes) -> None:
        if self._channel is not None:
            await self._channel.send_in_turn(Announcement(topic, body))

    async def gather(self, topic: str, body: bytes, *, within_s: float) -> list[bytes]:
        if self._channel is None:
            return []
        number = next(self._numbers)
        answers: asyncio.Future[list[bytes]] = asyncio.get_running_loop().create_future()
        self._gathered[number] = answers
        try:
            async with asyncio.timeout(within_s + _ROUND_S):
                await self._channel.send_in_turn(Question(number, topic, body, within_s))
                return await answers
        except TimeoutError:
            return []
        finally:
            del self._gathered[number]

    def _beat(self) -> None:
        if self._channel is not None:
            self._channel.send(Beat())
            asyncio.get_running_loop().call_later(BEAT_S, self._beat)

    def _send(self, frame: Frame) -> None:
        if self._channel is not None:
            self._channel.send(frame)

    def _end_with_supervisor(self) -> None:
        """End this process as well: nobody would keep it, and its port could not be reused."""
        self._channel = None
        self.is_orphan = True
        self._on_orphan()
        for answers in self._gathered.values():
            if not answers.done():
                answers.set_result([])
        self._on_stop(False)

    def _take(self, frame: Frame) -> None:
        match frame:
            case Announcement(topic, body, sender):
                for take in self._announced.get(topic, ()):
                    take(sender, body)
            case Question():
                self._answer(frame)
            case AnswersFrame():
                self._note(frame)
            case Arrival():
                for on_arrival in self._arrivals:
                    on_arrival()
            case Departure(number):
                for on_departure in self._departures:
                    on_departure(number)
            case Stop(is_replaced):
                self._on_stop(is_replaced)

    def _answer(self, question: Question) -> None:
        answer = self._answers.get(question.topic)
        if answer is not None:
            self._send(AnswerFrame(question.number, answer(question.body)))

    def _note(self, answers: AnswersFrame) -> None:
        waiting = self._gathered.get(answers.number)
        if waiting is not None and not waiting.done():
            waiting.set_result(answers.bodies)


def kill_with_supervisor(*, is_so: bool) -> None:
    """Let the system kill this process when the supervisor dies, or stop that; Linux only.

    A process that loads the streams does not read its channel, and has nothing to lose.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL if is_so else 0)


def end_in_time() -> None:
    """End this process within `ORPHAN_S_MAX`, whatever it does; it logs what that was."""
    faulthandler.dump_traceback_later(ORPHAN_S_MAX, exit=True)


def report_failure(end: socket.socket, reason: str) -> None:
    with suppress(OSError):  # then the supervisor has ended
        end.send(encode(FailedFrame(reason)))
