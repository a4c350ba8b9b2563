"""Commands: Redis words run against the engine, one by one or all at one moment."""

from collections.abc import Sequence

from app.redis_syntax.table import plan_of
from app.redis_syntax.words import CommandError, Plan, Reply
from engine.engine import Engine
from engine.errors import StreamError

_BLOCKING = frozenset({b"XREAD", b"XREADGROUP"})


class CommandRunner:
    """Runs commands. What goes wrong is a `StreamError` whose text is Redis's reply."""

    def __init__(self, engine: Engine) -> None:
        """Run commands against this engine."""
        self._engine = engine

    def may_wait(self, words: Sequence[bytes]) -> bool:
        """Tell whether a command may take long."""
        return bool(words) and words[0].upper() in _BLOCKING

    async def run(self, words: Sequence[bytes]) -> Reply:
        """Run one command, waiting if it blocks.

        Raises:
            StreamError: it failed.
        """
        plan = plan_of(words)
        if plan.wait is None:
            return await self._engine.perform(plan.step)
        return await self._engine.perform_blocking(
            plan.step,
            plan.wait.lanes,
            wait_ms=plan.wait.wait_ms,
            claim_idle_ms=plan.wait.claim_idle_ms,
        )

    async def run_all(self, commands: Sequence[Sequence[bytes]]) -> list[Reply | StreamError]:
        """Run commands at one moment with nothing in between; none of them waits (MULTI, EXEC).

        Raises:
            CommandError: a command makes no sense whatever the state; then none is run.
        """
        plans: list[Plan] = []
        for words in commands:
            try:
                plans.append(plan_of(words))
            except StreamError as error:
                text = "EXECABORT Transaction discarded because of previous errors."
                raise CommandError(f"{text} ({error})") from None
        return await self._engine.perform_all([plan.step for plan in plans])
