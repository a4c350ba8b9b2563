"""Client line: a connection as CLIENT LIST describes it."""

from __future__ import annotations

import asyncio

from headgate.app.resp.clients import ClientFacts
from headgate.app.resp.session import RespSession


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
    )


def line_of(session: RespSession) -> str:
    """Return the line of a client. What does not exist here is 0."""
    facts, wire = facts_of(session), session.wire
    transaction, condition = session.transaction, session.condition
    flags = "b" * session.is_blocked + "x" * (transaction is not None)
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
        **dict.fromkeys(("db", "sub", "psub", "ssub"), 0),
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
