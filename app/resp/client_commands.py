"""The CLIENT command."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from headgate.app.auth.grants import Verb
from headgate.app.redis_syntax.catalog import has_arity
from headgate.app.redis_syntax.command import help_lines
from headgate.app.redis_syntax.replies import Members, Pairs, Reply, Verbatim
from headgate.app.redis_syntax.words import (
    OK,
    SYNTAX,
    CommandError,
    beginning,
    integer,
    shown,
    timeout_ms,
    wrong_arity,
)
from headgate.app.resp.clients import NAME_BYTES_MAX, ClientFacts, ClientFilter, read_filter
from headgate.app.resp.session import OwnCommand, OwnCommands, RespSession

_PRINTABLE = re.compile(rb"[!-~]*")
_NO_SUCH_CLIENT: Final = "ERR No such client"
_PAUSE_MS_MAX: Final = 3_600_000


def check_printable(text: bytes, what: str) -> None:
    """Raise CommandError for a name that would break a line of CLIENT LIST."""
    if len(text) > NAME_BYTES_MAX:
        raise CommandError(f"ERR {what} cannot have more than {NAME_BYTES_MAX} bytes.")
    if not _PRINTABLE.fullmatch(text):
        text_ = f"{what} cannot contain spaces, newlines or special characters."
        raise CommandError(f"ERR {text_}")


async def client(session: RespSession, words: Sequence[bytes]) -> Reply:
    """CLIENT subcommand [argument ...]."""
    return await _subcommand(words).carry_out(session, words)


def _subcommand(words: Sequence[bytes]) -> OwnCommand:
    if len(words) < 2:
        raise wrong_arity("client")
    subcommand = SUBCOMMANDS.get(words[1].upper())
    if subcommand is None:
        raise CommandError(f"ERR unknown subcommand '{beginning(words[1])}'. Try CLIENT HELP.")
    name = f"client|{words[1].decode('latin-1').lower()}"
    if not has_arity(words, name):
        raise wrong_arity(name)
    return subcommand


def _check_words(words: Sequence[bytes], count_max: int) -> None:
    if len(words) > count_max:
        text = f"unknown subcommand or wrong number of arguments for '{shown(words[1])}'"
        raise CommandError(f"ERR {text}. Try CLIENT HELP.")


def facts_of(session: RespSession) -> ClientFacts:
    """Return the facts of a client for a filter."""
    transport, principal = session.wire.transport, session.access.principal
    is_default = principal.is_home or principal.is_anonymous
    return ClientFacts(
        session.id,
        _address_of(transport, "peername"),
        _address_of(transport, "sockname"),
        "default" if is_default else principal.id,
        int(asyncio.get_running_loop().time() - session.began_s),
        "pubsub" if session.subscriptions.count else "normal",
    )


def line_of(session: RespSession) -> str:
    """Return the line of a client. What does not exist here is 0."""
    facts, wire = facts_of(session), session.wire
    transaction, condition = session.transaction, session.condition
    names = session.subscriptions.names
    flags = "b" * session.is_blocked + "x" * (transaction is not None)
    flags += "P" * (session.subscriptions.count > 0)
    flags += "".join(sorted(session.switches))
    unsent_bytes = wire.transport.get_write_buffer_size()
    values: dict[str, object] = {
        "id": facts.id,
        "addr": facts.address,
        "laddr": facts.local_address,
        "fd": _descriptor_of(wire.transport),
        "name": session.name.decode("latin-1"),
        "age": facts.age_s,
        "idle": int(asyncio.get_running_loop().time() - session.active_s),
        "flags": flags or "N",
        "db": 0,
        "sub": len(names[False]),
        "psub": len(names[True]),
        "ssub": 0,
        "multi": -1 if transaction is None else len(transaction.commands),
        "watch": 0 if condition is None else len(condition.streams),
        "qbuf": wire.unread_bytes,
        **dict.fromkeys(("qbuf-free", "argv-mem", "multi-mem", "rbs", "rbp"), 0),
        "obl": unsent_bytes,
        "oll": 0,
        "omem": unsent_bytes,
        "tot-mem": unsent_bytes + wire.unread_bytes,
        "events": "r",
        "cmd": session.last_command.decode("latin-1").lower(),
        "user": facts.user,
        "redir": -1,
        "resp": session.replies.protocol,
        "lib-name": session.library.get(b"lib-name", b"").decode("latin-1"),
        "lib-ver": session.library.get(b"lib-ver", b"").decode("latin-1"),
    }
    return " ".join(f"{name}={value}" for name, value in values.items())


def _address_of(transport: asyncio.Transport, name: str) -> str:
    """Return an end of a connection as Redis writes it."""
    address = transport.get_extra_info(name)
    if not isinstance(address, tuple):
        return f"{address or 'unknown'}:0"
    host = f"[{address[0]}]" if ":" in address[0] else address[0]
    return f"{host}:{address[1]}"


def _descriptor_of(transport: asyncio.Transport) -> int:
    socket = transport.get_extra_info("socket")
    return -1 if socket is None else int(socket.fileno())


# About this connection

_NO_TRACKING = Pairs([b"flags", Members([b"off"]), b"redirect", -1, b"prefixes", []])


def _telling(
    tell: Callable[[RespSession], Reply],
) -> Callable[[RespSession, Sequence[bytes]], Awaitable[Reply]]:
    async def carry_out(session: RespSession, words: Sequence[bytes]) -> Reply:
        del words
        return tell(session)

    return carry_out


async def _setname(session: RespSession, words: Sequence[bytes]) -> Reply:
    check_printable(words[2], "Client names")
    session.name = words[2]
    return OK


async def _setinfo(session: RespSession, words: Sequence[bytes]) -> Reply:
    attribute = words[2].lower()
    if attribute not in (b"lib-name", b"lib-ver"):
        raise CommandError(f"ERR Unrecognized option '{shown(words[2])}'")
    check_printable(words[3], attribute.decode())
    session.library[attribute] = words[3]
    return OK


async def _reply(session: RespSession, words: Sequence[bytes]) -> Reply:
    mode = words[2].upper()
    if mode not in (b"ON", b"OFF", b"SKIP"):
        raise CommandError(SYNTAX)
    return session.replies.change(mode)


async def _switch(session: RespSession, words: Sequence[bytes]) -> Reply:
    if words[2].upper() not in (b"ON", b"OFF"):
        raise CommandError(SYNTAX)
    session.switch("e" if words[1].upper() == b"NO-EVICT" else "T", is_on=words[2].upper() == b"ON")
    return OK


async def _tracking(session: RespSession, words: Sequence[bytes]) -> Reply:
    del session
    if words[2].upper() == b"OFF":
        return OK
    if words[2].upper() != b"ON":
        raise CommandError(SYNTAX)
    raise CommandError("ERR clients are not tracked: streams are read, not cached")


async def _caching(session: RespSession, words: Sequence[bytes]) -> Reply:
    del session, words
    text = "CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or "
    raise CommandError(f"ERR {text}OPTOUT mode enabled")


# About all connections


async def _list(session: RespSession, words: Sequence[bytes]) -> Reply:
    session.access.check({Verb.ADMIN})
    chosen = ClientFilter()
    if len(words) == 4 and words[2].upper() == b"TYPE":
        chosen = read_filter([b"TYPE", words[3]])
    elif len(words) > 3 and words[2].upper() == b"ID":
        ids = [integer(word, "ERR Invalid client ID") for word in words[3:]]
        chosen = ClientFilter(ids=frozenset(ids))
    elif len(words) > 2:
        raise CommandError(SYNTAX)
    return Verbatim("".join(f"{line}\n" for line in await session.clients.lines(chosen)).encode())


async def _kill(session: RespSession, words: Sequence[bytes]) -> Reply:
    session.access.check({Verb.ADMIN})
    if len(words) == 3:  # the old form
        count = await session.clients.kill(ClientFilter(address=words[2].decode("latin-1")))
        if not count:
            raise CommandError(_NO_SUCH_CLIENT)
        return OK
    if len(words) % 2:
        raise CommandError(SYNTAX)
    chosen = read_filter(words[2:])
    if chosen.skips_me:
        chosen = chosen._replace(but=session.id)
    return await session.clients.kill(chosen)


async def _unblock(session: RespSession, words: Sequence[bytes]) -> Reply:
    session.access.check({Verb.ADMIN})
    _check_words(words, 4)
    how = words[3].upper() if len(words) == 4 else b"TIMEOUT"
    if how not in (b"TIMEOUT", b"ERROR"):
        raise CommandError("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR")
    return await session.clients.unblock(integer(words[2]), how)


async def _pause(session: RespSession, words: Sequence[bytes]) -> Reply:
    session.access.check({Verb.ADMIN})
    _check_words(words, 4)
    kind = words[3].upper() if len(words) == 4 else b"ALL"
    if kind not in (b"WRITE", b"ALL"):
        raise CommandError("ERR CLIENT PAUSE mode must be WRITE or ALL")
    duration_ms = timeout_ms(words[2])
    await session.clients.pause(min(duration_ms, _PAUSE_MS_MAX), reads_too=kind == b"ALL")
    return OK


async def _unpause(session: RespSession, words: Sequence[bytes]) -> Reply:
    del words
    session.access.check({Verb.ADMIN})
    await session.clients.unpause()
    return OK


SUBCOMMANDS: OwnCommands = {
    b"CACHING": OwnCommand(_caching),
    b"GETNAME": OwnCommand(_telling(lambda session: session.name or None)),
    b"GETREDIR": OwnCommand(_telling(lambda _: -1)),
    b"HELP": OwnCommand(_telling(lambda _: help_lines("CLIENT"))),
    b"ID": OwnCommand(_telling(lambda session: session.id)),
    b"INFO": OwnCommand(_telling(lambda session: Verbatim(f"{line_of(session)}\n".encode()))),
    b"KILL": OwnCommand(_kill),
    b"LIST": OwnCommand(_list),
    b"NO-EVICT": OwnCommand(_switch),
    b"NO-TOUCH": OwnCommand(_switch),
    b"PAUSE": OwnCommand(_pause),
    b"REPLY": OwnCommand(_reply),
    b"SETINFO": OwnCommand(_setinfo),
    b"SETNAME": OwnCommand(_setname),
    b"TRACKING": OwnCommand(_tracking),
    b"TRACKINGINFO": OwnCommand(_telling(lambda _: _NO_TRACKING)),
    b"UNBLOCK": OwnCommand(_unblock),
    b"UNPAUSE": OwnCommand(_unpause),
}

COMMANDS: OwnCommands = {b"CLIENT": OwnCommand(client, check_more=_subcommand)}
