"""Transactions: MULTI, EXEC, DISCARD, WATCH, UNWATCH."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headgate.app.redis_syntax.replies import NULL_ARRAY, Reply
from headgate.app.redis_syntax.words import OK, CommandError
from headgate.app.resp.session import (
    WORD_BYTES,
    OwnCommand,
    OwnCommands,
    QueuedCommands,
    RespSession,
)
from headgate.engine.errors import StreamsChanged
from headgate.engine.limits import QUEUES_MAX
from headgate.engine.requests.keyspace import IfUnchanged
from headgate.engine.threads import this_turn

ABORTED = "EXECABORT Transaction discarded because of previous errors."


async def _multi(session: RespSession, words: Sequence[bytes]) -> Reply:
    """Begin a transaction (MULTI)."""
    del words
    if session.transaction is not None:
        raise CommandError("ERR MULTI calls can not be nested")
    session.transaction = QueuedCommands()
    return OK


async def _discard(session: RespSession, words: Sequence[bytes]) -> Reply:
    """Forget a transaction, and what is watched (DISCARD)."""
    del words
    if session.transaction is None:
        raise CommandError("ERR DISCARD without MULTI")
    session.transaction = session.condition = None
    return OK


async def _exec(session: RespSession, words: Sequence[bytes]) -> Reply:
    """Run a transaction (EXEC).

    The commands about streams are one step. Those about the connection have nothing to do with
    streams, so they are run afterwards, and their replies stand in their places.
    """
    del words
    transaction, condition = session.transaction, session.condition
    if transaction is None:
        raise CommandError("ERR EXEC without MULTI")
    session.transaction = session.condition = None
    if transaction.is_broken:
        raise CommandError(ABORTED)
    try:
        replies = iter(await session.runner.run_all(transaction.about_streams, condition))
    except StreamsChanged:
        return NULL_ARRAY
    outcomes, turn = list[Any](), this_turn()
    for queued in transaction.commands:
        outcomes.append(await session.run_own(queued) if session.is_own(queued) else next(replies))
        await turn.pause()
    return outcomes


def _check_exec(words: Sequence[bytes]) -> None:
    if len(words) > 1:
        text = "wrong number of arguments for 'exec' command"
        raise CommandError(f"EXECABORT Transaction discarded because of: {text}")


async def _watch(session: RespSession, words: Sequence[bytes]) -> Reply:
    """Let the next transaction do nothing if one of these streams changes until then (WATCH)."""
    if session.transaction is not None:
        raise CommandError("ERR WATCH inside MULTI is not allowed")
    before = session.condition
    streams = list(dict.fromkeys(words[1:]))
    if before is not None:
        streams = [stream for stream in streams if stream not in before.streams]
    known = 0 if before is None else len(before.streams)
    if known + len(streams) > QUEUES_MAX:
        raise CommandError(f"ERR at most {QUEUES_MAX} keys can be watched")
    if streams:
        condition = await session.runner.watch(streams)
        session.condition = condition if before is None else _joined(before, condition)
        session.watched_bytes = sum(map(len, session.condition.streams))
        session.watched_bytes += WORD_BYTES * len(session.condition.streams)
    return OK


def _joined(before: IfUnchanged, more: IfUnchanged) -> IfUnchanged:
    return IfUnchanged([*before.streams, *more.streams], [*before.revisions, *more.revisions])


async def _unwatch(session: RespSession, words: Sequence[bytes]) -> Reply:
    """Watch nothing any more (UNWATCH)."""
    del words
    session.condition = None
    return OK


COMMANDS: OwnCommands = {
    b"MULTI": OwnCommand(1, _multi, at_once=True),
    b"EXEC": OwnCommand(1, _exec, at_once=True, check_more=_check_exec),
    b"DISCARD": OwnCommand(1, _discard, at_once=True),
    b"WATCH": OwnCommand(-2, _watch, at_once=True),
    b"UNWATCH": OwnCommand(1, _unwatch),
}
