"""Commands: all that are about the connection itself: its login and protocol, its transaction."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from headgate.app.auth.access import Access
from headgate.app.auth.audit import serve
from headgate.app.auth.principal import Unauthenticated
from headgate.app.redis_syntax.catalog import Described, described_commands
from headgate.app.redis_syntax.replies import NULL_ARRAY, Pairs, Reply, Status
from headgate.app.redis_syntax.server import SPOKEN_VERSION
from headgate.app.redis_syntax.words import (
    OK,
    SYNTAX,
    CommandError,
    Option,
    beginning,
    database,
    integer,
    read_options,
)
from headgate.app.resp import client_commands, subscription_commands
from headgate.app.resp.client_commands import check_printable
from headgate.app.resp.encoder import RESP2, RESP3
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

_DEFAULT: Final = b"default"
_WRONG: Final = "WRONGPASS invalid username-password pair or user is disabled."
_OPEN: Final = (
    "ERR AUTH <password> called without any password configured for the default user. "
    "Are you sure your configuration is correct?"
)
_NOT_KNOWN: Final = (
    "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO "
    "<proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP "
    "protocol version at the same time"
)
_SECRET = re.compile(r"hg_(?P<id>[^_]+)_.+")


async def _auth(session: RespSession, words: Sequence[bytes]) -> Reply:
    """Authenticate the client: AUTH token, AUTH default token, AUTH key-id key."""
    if len(words) > 3:
        raise CommandError(SYNTAX)
    if len(words) == 2 and session.gateway.auth.is_open:
        raise CommandError(_OPEN)
    user = words[1] if len(words) == 3 else _DEFAULT
    session.become(_access_of(session, user, words[-1]))
    return OK


def _access_of(session: RespSession, user: bytes, password: bytes) -> Access:
    """Return the access of a user: `default` with a key or a token, or the id of a key with it.

    Raises:
        CommandError: the credential is not valid.
    """
    auth = session.gateway.auth
    token = password.decode("latin-1")
    if auth.is_open:
        if user != _DEFAULT:
            raise CommandError(_WRONG)
        return session.anonymous()
    if user != _DEFAULT:
        match = _SECRET.fullmatch(token)
        if match is None:  # the secret alone
            token = f"hg_{user.decode('latin-1')}_{token}"
        elif match["id"].encode("latin-1") != user:
            token = ""  # it is the key of another user
    serve(session.served)
    try:
        return auth.by_token(token)
    except Unauthenticated:
        raise CommandError(_WRONG) from None


async def _hello(session: RespSession, words: Sequence[bytes]) -> Reply:
    """Agree on a protocol: HELLO [version [AUTH user password] [SETNAME name]]."""
    protocol = session.replies.protocol
    if len(words) > 1:
        protocol = integer(words[1], "ERR Protocol version is not an integer or out of range")
        if protocol not in (RESP2, RESP3):
            raise CommandError("NOPROTO unsupported protocol version")
    options = {b"AUTH": Option(partial(_access_of, session), 2), b"SETNAME": Option(_client_name)}
    given, _ = read_options(words, 2, options, _unknown_option)
    if b"AUTH" in given:
        session.become(given[b"AUTH"])
    if session.is_stranger:
        raise CommandError(_NOT_KNOWN)
    if b"SETNAME" in given:
        session.name = given[b"SETNAME"]
    session.replies.protocol = protocol
    return Pairs(
        [
            *(b"server", b"redis", b"version", SPOKEN_VERSION.encode()),
            *(b"proto", protocol, b"id", session.id),
            *(b"mode", b"standalone", b"role", b"master", b"modules", []),
        ]
    )


def _client_name(name: bytes) -> bytes:
    check_printable(name, "Client names")
    return name


def _unknown_option(word: bytes) -> CommandError:
    return CommandError(f"ERR Syntax error in HELLO option '{beginning(word)}'")


async def _select(session: RespSession, words: Sequence[bytes]) -> Reply:
    """Choose the only database (SELECT 0)."""
    del session
    database(words[1])
    return OK


async def _reset(session: RespSession, words: Sequence[bytes]) -> Reply:
    """Begin anew (RESET)."""
    del words
    session.reset()
    return Status("RESET")


async def _quit(session: RespSession, words: Sequence[bytes]) -> Reply:
    """End the connection (QUIT)."""
    del words
    session.drain()
    return OK


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


OWN: OwnCommands = {
    b"AUTH": OwnCommand(_auth, for_strangers=True),
    b"HELLO": OwnCommand(_hello, for_strangers=True),
    b"SELECT": OwnCommand(_select),
    b"RESET": OwnCommand(_reset, for_strangers=True, at_once=True),
    b"QUIT": OwnCommand(_quit, for_strangers=True, at_once=True),
    b"MULTI": OwnCommand(_multi, at_once=True),
    b"EXEC": OwnCommand(_exec, at_once=True, check_more=_check_exec),
    b"DISCARD": OwnCommand(_discard, at_once=True),
    b"WATCH": OwnCommand(_watch, at_once=True),
    b"UNWATCH": OwnCommand(_unwatch),
    **subscription_commands.COMMANDS,
    **client_commands.COMMANDS,
}

DESCRIBED: Described = described_commands(OWN, {b"CLIENT": client_commands.SUBCOMMANDS})
