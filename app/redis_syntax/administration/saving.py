"""BGSAVE, SAVE, BGREWRITEAOF, LASTSAVE: the journal is both of Redis's files."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Final

from headgate.app.auth.grants import Verb
from headgate.app.backends.port import Backend, Journaled
from headgate.app.redis_syntax.administration.information import Information
from headgate.app.redis_syntax.catalog.description import (
    CHANGING,
    Catalog,
    Description,
    server_command,
)
from headgate.app.redis_syntax.command import CommandTable, SmallReply
from headgate.app.redis_syntax.replies import Reply, Status
from headgate.app.redis_syntax.words import OK, SYNTAX, AnyPlan, CommandError, Plan
from headgate.engine.requests.keyspace import GetDefaults

_LOOK_S: Final = 0.05
"""Interval between looks for the end of a rewrite."""

_NO_JOURNAL: Final = "ERR there is no journal here to rewrite"


class Saving:
    """Answers commands about the files on the disk."""

    def __init__(self, backend: Backend, information: Information) -> None:
        """Use the journal of a backend, if it has one."""
        self._backend = backend
        self._information = information

    @property
    def table(self) -> CommandTable:
        """Return the commands."""
        return {
            b"BGSAVE": SmallReply(-1, {Verb.ADMIN}, self._begin_save),
            b"BGREWRITEAOF": SmallReply(1, {Verb.ADMIN}, self._begin_rewrite),
            b"SAVE": SmallReply(1, {Verb.ADMIN}, self._save),
            b"LASTSAVE": SmallReply(1, {Verb.ADMIN}, self._last_save, only_reads=True),
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
                await asyncio.sleep(_LOOK_S)
            if journal.status.rewrite_count == before and journal.status.rewrite_failure:
                raise CommandError(f"ERR {journal.status.rewrite_failure}")
            return OK

        return Plan(GetDefaults(), _nothing, finish=finish)

    def _last_save(self, words: Sequence[bytes]) -> AnyPlan:
        """LASTSAVE."""
        del words
        return Plan(GetDefaults(), lambda _: self._information.saved_at_s)

    def _journal(self) -> Journaled:
        if self._backend.journal is None:
            raise CommandError(_NO_JOURNAL)
        return self._backend.journal


def _nothing(_: object) -> Reply:
    return None


_saving = partial(Description, group="server", flags="admin noscript no_async_loading")

CATALOG: Catalog = {
    "save": _saving(
        "The same as BGSAVE, and wait until it has ended.",
        "1.0.0",
        flags="admin noscript no_async_loading no_multi",
        complexity="O(N) for N keys that there are.",
    ),
    "bgsave": _saving(
        "Begin to replace the history of the journal by a snapshot.",
        "1.0.0",
        usage="[SCHEDULE@3.2.2]",
    ),
    "bgrewriteaof": _saving("The same as BGSAVE: there is one journal.", "1.0.0"),
    "lastsave": server_command(
        "Return the unix time of the last snapshot, in seconds.",
        "1.0.0",
        flags="loading stale fast",
        categories="admin dangerous",
        tips=CHANGING,
    ),
}
