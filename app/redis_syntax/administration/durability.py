"""SAVE, BGSAVE, BGREWRITEAOF, LASTSAVE, WAIT, WAITAOF: whether what was written is safe."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, TypeVar

from headgate.app.auth.grants import Verb
from headgate.app.backends.port import Backend, Durable, Journaled, StreamServers
from headgate.app.redis_syntax.administration.information import Information, status_of
from headgate.app.redis_syntax.command import ANY_RIGHT, CommandTable, SmallReply
from headgate.app.redis_syntax.replies import Reply, Status
from headgate.app.redis_syntax.words import (
    OK,
    SYNTAX,
    AnyPlan,
    CommandError,
    Plan,
    integer,
    number,
    saying,
    telling,
    timeout_ms,
)
from headgate.engine.requests.keyspace import GetDefaults, TellTime

_REWRITE_LOOK_S: Final = 0.05
"""Interval between looks for the end of a rewrite."""

_NOTHING_TO_REWRITE: Final = "ERR there is no journal here to rewrite"

T = TypeVar("T")

_SYNC_LOOK_S: Final = 0.02
"""Interval between looks for the journal's sync."""

_TIMEOUT_MS_MAX: Final = 2**53
_count = number(0, "ERR value is out of range, must be positive")
_0_or_1 = number(0, "ERR value is out of range, value must between 0 and 1", maximum=1)
_NO_JOURNAL: Final = "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled."


class Safekeeping:
    """Answers whether what was written is safe, and commands about the files on the disk."""

    def __init__(self, backend: Backend, information: Information) -> None:
        """Use the journal of a backend, if it has one."""
        self._backend = backend
        self._information = information

    @property
    def table(self) -> CommandTable:
        """Return the commands."""
        last_save = telling(lambda: self._information.saved_at_s)
        return {
            b"BGSAVE": SmallReply({Verb.ADMIN}, self._begin_save),
            b"BGREWRITEAOF": SmallReply({Verb.ADMIN}, self._begin_rewrite),
            b"SAVE": SmallReply({Verb.ADMIN}, self._save),
            b"WAIT": SmallReply(ANY_RIGHT, self._wait),
            b"WAITAOF": SmallReply(ANY_RIGHT, self._wait_for_disk),
            b"LASTSAVE": SmallReply({Verb.ADMIN}, last_save, only_reads=True),
        }

    def _begin_save(self, words: Sequence[bytes]) -> AnyPlan:
        """BGSAVE [SCHEDULE]."""
        if len(words) > 2 or (len(words) == 2 and words[1].upper() != b"SCHEDULE"):
            raise CommandError(SYNTAX)
        running = "ERR Background save already in progress"
        return self._rewriting("Background saving started", running)

    def _begin_rewrite(self, words: Sequence[bytes]) -> AnyPlan:
        """BGREWRITEAOF."""
        del words
        running = "ERR Background append only file rewriting already in progress"
        return self._rewriting("Background append only file rewriting started", running)

    def _rewriting(self, started: str, running: str) -> AnyPlan:
        journal = self._journal()

        async def finish(_: Reply) -> Reply:
            if not await journal.start_rewrite():
                raise CommandError(running)
            return Status(started)

        return Plan(GetDefaults(), _nothing, finish=finish)

    def _save(self, words: Sequence[bytes]) -> AnyPlan:
        """SAVE: begins a rewrite, and waits until it has ended. Others go on meanwhile."""
        del words
        journal = self._journal()

        async def finish(_: Reply) -> Reply:
            before = journal.status.rewrite_count
            if not await journal.start_rewrite():
                raise CommandError("ERR Background save already in progress")
            while journal.status.is_rewriting:  # noqa: ASYNC110 it may be in another process
                await asyncio.sleep(_REWRITE_LOOK_S)
            if journal.status.rewrite_count == before and journal.status.rewrite_failure:
                raise CommandError(f"ERR {journal.status.rewrite_failure}")
            return OK

        return Plan(GetDefaults(), _nothing, finish=finish)

    def _journal(self) -> Journaled:
        if self._backend.journal is None:
            raise CommandError(_NOTHING_TO_REWRITE)
        return self._backend.journal

    @property
    def _servers(self) -> StreamServers | None:
        """Return the servers to ask; None: there are none, or no answer comes before it is safe."""
        return self._backend.servers if self._backend.durable is Durable.NOTHING else None

    @property
    def _replica_count(self) -> int:
        """Return the number of replicas that have all answered changes; others are unknown."""
        return int(self._backend.durable is Durable.REPLICA)

    def _wait(self, words: Sequence[bytes]) -> AnyPlan:
        """WAIT numreplicas timeout."""
        wanted, timeout_s = integer(words[1]), _timeout_s(words[2])
        servers = self._servers
        if servers is None:
            return saying(self._replica_count)

        async def finish(_: Reply) -> Reply:
            return await _asked_until(
                servers.replica_count, lambda count: count >= wanted, timeout_s
            )

        return Plan(TellTime(), lambda _: None, finish=finish)

    def _wait_for_disk(self, words: Sequence[bytes]) -> AnyPlan:
        """WAITAOF numlocal numreplicas timeout."""
        wanted, replicas, timeout_s = _0_or_1(words[1]), _count(words[2]), _timeout_s(words[3])
        servers = self._servers
        if servers is not None:
            return _waiting_for(servers, (wanted, replicas), timeout_s)
        durable = self._backend.durable
        if durable in (Durable.DISK, Durable.BUCKET, Durable.REPLICA):  # no answer comes before
            return saying([1, self._replica_count])
        if wanted and self._backend.journal is None:
            raise CommandError(_NO_JOURNAL)

        async def finish(_: Reply) -> Reply:
            is_synced = durable is Durable.EVERYSEC and await self._synced(timeout_s, wanted)
            return [int(is_synced), 0]

        return Plan(TellTime(), lambda _: None, finish=finish)

    async def _synced(self, timeout_s: float | None, wanted: int) -> bool:
        """Wait until everything recorded so far is synced; tell whether it is."""
        loop = asyncio.get_running_loop()
        over_s = None if timeout_s is None else loop.time() + timeout_s
        status = status_of(self._backend)
        position = 0 if status is None else status.position
        while status is None or status.synced_position < position:
            if not wanted or (over_s is not None and loop.time() >= over_s):
                return False
            if status is not None and status.failure is not None:
                raise CommandError(f"MISCONF {status.failure}")
            await asyncio.sleep(_SYNC_LOOK_S)
            status = status_of(self._backend)
        return True


def _waiting_for(
    servers: StreamServers, wanted: tuple[int, int], timeout_s: float | None
) -> AnyPlan:
    def is_enough(counts: tuple[int, int]) -> bool:
        return counts[0] >= wanted[0] and counts[1] >= wanted[1]

    async def finish(_: Reply) -> Reply:
        ask = partial(servers.synced_counts, wanted[0])
        local, replicas = await _asked_until(ask, is_enough, timeout_s)
        return [local, replicas]

    return Plan(TellTime(), lambda _: None, finish=finish)


def _nothing(_: object) -> Reply:
    return None


async def _asked_until(
    ask: Callable[[], Awaitable[T]], is_enough: Callable[[T], bool], timeout_s: float | None
) -> T:
    loop = asyncio.get_running_loop()
    over_s = None if timeout_s is None else loop.time() + timeout_s
    answer = await ask()
    while not is_enough(answer) and (over_s is None or loop.time() < over_s):
        await asyncio.sleep(_SYNC_LOOK_S)
        answer = await ask()
    return answer


def _timeout_s(word: bytes) -> float | None:
    """Read a timeout in ms; 0 means none."""
    ms = timeout_ms(word)
    if ms > _TIMEOUT_MS_MAX:
        raise CommandError("ERR timeout is out of range")
    return ms / 1000 or None
