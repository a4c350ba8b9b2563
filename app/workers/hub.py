"""Hub: passes on what the processes of a gateway share. It runs in the supervisor."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from headgate.app.workers.channel import Channel
from headgate.app.workers.frames import (
    Announcement,
    AnswerFrame,
    AnswersFrame,
    Arrival,
    Departure,
    Frame,
    Question,
)

log = logging.getLogger("headgate")

WITHIN_S_MAX: Final = 30.0
"""No question waits longer for its answers."""


class _Gathering:
    """A question under way: the members that have to answer, and the answers so far."""

    def __init__(self, asked: set[int]) -> None:
        self.waiting_for = asked
        self.bodies: dict[int, bytes] = {}
        self.is_over = asyncio.Event()
        if not asked:
            self.is_over.set()

    def answer(self, member: int, body: bytes | None) -> None:
        """Note the answer of a member, or that there will be none."""
        if member not in self.waiting_for:
            return
        self.waiting_for.discard(member)
        if body is not None:
            self.bodies[member] = body
        if not self.waiting_for:
            self.is_over.set()


class Hub:
    """Knows the processes that are ready, each by its number and its channel."""

    def __init__(self) -> None:
        """Begin with no process."""
        self._workers: dict[int, Channel] = {}
        self._engines: dict[int, Channel] = {}  # they answer questions of the hub alone
        self._gatherings: dict[int, _Gathering] = {}
        self._numbers = itertools.count(1)
        self._topics: dict[str, Callable[[bytes, float], Awaitable[bytes]]] = {}
        self._answering: set[asyncio.Task[None]] = set()

    def on_question(self, topic: str, answer: Callable[[bytes, float], Awaitable[bytes]]) -> None:
        """Answer a question in place of the siblings of who asks.

        Args:
            topic: of the question.
            answer: returns the answer to a body, within so many seconds.
        """
        self._topics[topic] = answer

    def enter(self, number: int, channel: Channel, *, is_engine: bool) -> None:
        """Let a process take part that is ready."""
        if is_engine:
            self._engines[number] = channel
            return
        self._workers[number] = channel
        if len(self._workers) > 1:  # neither side has heard what the other has announced so far
            for worker in self._workers.values():
                worker.send(Arrival())

    def leave(self, number: int) -> None:
        """Forget a process that has ended."""
        self._engines.pop(number, None)
        if self._workers.pop(number, None) is not None:
            for sibling in self._workers.values():
                sibling.send(Departure(number))
        for gathering in self._gatherings.values():
            gathering.answer(number, None)

    def take(self, sender: int, frame: Frame) -> None:
        """Take a frame of a process that takes part."""
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
        """Ask all processes, the engine included; returns the answers that came in time."""
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
