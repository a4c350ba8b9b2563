"""Random commands: each is answered or refused, and the records make the same state again."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from typing import Any

import pytest

from headgate.app.backends.embedded import EmbeddedBackend
from headgate.app.redis_syntax.answers import Answers
from headgate.app.redis_syntax.runs import CommandRunner
from headgate.app.redis_syntax.words import Bounds
from headgate.engine.engine import Engine
from headgate.engine.errors import StreamError
from headgate.engine.journal.storage import MemoryStorage
from tests.fuzz import grammar, rounds
from tests.journals.records import reloaded, replayed
from tests.model.snapshot import snapshot as everything_in
from tests.virtual_time import ManualClock

COUNT = 300
TURNS = 200
"""A command that does not end in so many turns of the loop waits for something."""


class Spoken:
    """An engine that is spoken to, and its records."""

    def __init__(self, seed: int) -> None:
        self.pick = random.Random(seed)
        self.commands: list[list[bytes]] = []
        self._clock = ManualClock(10)
        self.engine = Engine(MemoryStorage(), clock=self._clock)
        self._runner = CommandRunner(EmbeddedBackend(self.engine), Bounds(50, 20_000))

    async def go_on(self) -> None:
        """Say something, one command or some at one moment."""
        self._clock.now_ms += self.pick.choice([0, 0, 1, 1, 7, 2000])
        if self.pick.random() < 0.1:
            many = [grammar.command(self.pick) for _ in range(self.pick.randint(0, 6))]
            self.commands += [[b"MULTI"], *many, [b"EXEC"]]
            await self._answered(self._runner.run_all(many), is_many=True)
        else:
            await self.say(grammar.command(self.pick))

    async def say(self, words: list[bytes]) -> None:
        """Run a command, as long as it does not wait."""
        self.commands.append(words)
        await self._answered(self._runner.run(words))

    async def _answered(self, running: Coroutine[Any, Any, Any], *, is_many: bool = False) -> None:
        task = asyncio.ensure_future(running)
        for _ in range(TURNS):
            await asyncio.sleep(0)
            if task.done():
                break
        task.cancel()
        try:
            reply = await task
        except (StreamError, asyncio.CancelledError):
            return
        answers = Answers(is_base64=bool(self.pick.getrandbits(1)))
        for item in reply if is_many else [reply]:
            await answers.add(item)
        assert answers.all()

    def check(self) -> None:
        """Check that records and a snapshot make the same state."""
        live = everything_in(self.engine.keyspace)
        assert everything_in(replayed(self.engine)) == live
        assert everything_in(reloaded(self.engine.keyspace)) == live


async def test_random_commands_are_answered_or_refused() -> None:
    for seed in rounds.seeds(10):
        spoken = Spoken(seed)
        with rounds.ended(), rounds.reporting_seed(seed, spoken.commands):
            for _ in range(COUNT):
                await spoken.go_on()
            spoken.check()


@pytest.mark.parametrize("number", grammar.NUMBERS)
async def test_every_number_of_a_command_may_be_extreme(number: bytes) -> None:
    spoken = Spoken(grammar.NUMBERS.index(number))
    with rounds.ended(), rounds.reporting_seed(0, spoken.commands):
        for name in grammar.NAMES:
            await spoken.say([b"XADD", b"s", b"*", b"f", b"v"])
            await spoken.say(b"XGROUP CREATE s g 0".split())
            await spoken.say(b"XREADGROUP GROUP g g STREAMS s >".split())
            words = grammar.words_of(name, spoken.pick, share=1.0)
            for at in [at for at, word in enumerate(words) if word.lstrip(b"-").isdigit()]:
                await spoken.say([*words[:at], number, *words[at + 1 :]])
        spoken.check()
