"""Commands for connections and transactions, which only connections have."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from headgate.app.redis_syntax.catalog.description import (
    Catalog,
    Description,
    KeyPlaces,
    container,
    help_of,
)

_command = partial(
    Description, group="connection", flags="noscript loading stale", categories="connection"
)
_operation = partial(
    Description, group="connection", flags="admin noscript loading stale", categories="connection"
)
_handshake = partial(
    Description,
    group="connection",
    flags="noscript loading stale fast no_auth allow_busy",
    categories="connection",
)
_transaction = partial(
    Description,
    group="transactions",
    flags="noscript loading stale fast allow_busy",
    categories="transaction",
)

_CHANGING: Final = "nondeterministic_output"
_EACH_CLIENT: Final = "O(N) for N connections."
_TYPE: Final = "(NORMAL | MASTER | REPLICA | PUBSUB)"

_CLIENT: Catalog = {
    "client": container("about connections", "2.4.0", "connection"),
    "client|id": _command("Return the number of this connection.", "5.0.0", arity=2),
    "client|info": _command("Describe this connection.", "6.2.0", tips=_CHANGING, arity=2),
    "client|getname": _command("Return the name of this connection.", "2.6.9", arity=2),
    "client|setname": _command(
        "Give this connection a name.", "2.6.9", usage="connection-name", arity=3
    ),
    "client|setinfo": _command(
        "Note which library the client uses.",
        "7.2.0",
        usage="attr(LIB-NAME/libname | LIB-VER/libver)",
        tips="request_policy:all_nodes response_policy:all_succeeded",
        arity=4,
    ),
    "client|reply": _command(
        "Choose whether this connection gets replies.",
        "3.2.0",
        usage="on_off_skip(ON | OFF | SKIP)",
        arity=3,
    ),
    "client|no-touch": _command(
        "Has no effect: when keys were last used is not kept.",
        "7.2.0",
        usage="enabled(ON | OFF)",
        arity=3,
    ),
    "client|caching": _command(
        "Refused: clients are not tracked.", "6.0.0", usage="mode(YES | NO)", arity=3
    ),
    "client|getredir": _command("Return -1: clients are not tracked.", "6.0.0", arity=2),
    "client|tracking": _command(
        "Refused if it is ON: clients are not told of changes.",
        "6.0.0",
        usage="status(ON | OFF) [REDIRECT/client-id:integer] [PREFIX/prefix....] [BCAST] [OPTIN] "
        "[OPTOUT] [NOLOOP]",
        arity=-3,
    ),
    "client|trackinginfo": _command("Describe the tracking: it is off.", "6.2.0", arity=2),
    "client|help": replace(help_of("CLIENT", "5.0.0", "connection", "connection"), arity=2),
    "client|list": _operation(
        "Describe connections.",
        "2.4.0",
        usage=f"[TYPE/normal_master_replica_pubsub@5.0.0{_TYPE}] "
        "[ID/id@6.2.0(client-id:integer...)]",
        tips=_CHANGING,
        complexity=_EACH_CLIENT,
        arity=-2,
    ),
    "client|kill": _operation(
        "End connections.",
        "2.4.0",
        usage="filter(ip:port | new-format([ID/client-id:integer@2.8.12] | "
        "[TYPE/normal_master_slave_pubsub@2.8.12(NORMAL | MASTER@3.2.0 | SLAVE | REPLICA@5.0.0 | "
        "PUBSUB)] | [USER/username] | [ADDR/ip:port] | [LADDR/ip:port@6.2.0] | [SKIPME/yes/no] | "
        "[MAXAGE/maxage:integer@7.4.0])...)",
        complexity=_EACH_CLIENT,
        arity=-3,
    ),
    "client|pause": _operation(
        "Let the commands of all clients wait.",
        "2.9.50",
        usage="timeout:integer [mode@6.2.0(WRITE | ALL)]",
        arity=-3,
    ),
    "client|unpause": _operation("End a pause.", "6.2.0", complexity=_EACH_CLIENT, arity=2),
    "client|unblock": _operation(
        "End a read that blocks.",
        "5.0.0",
        usage="client-id:integer [timeout_error(TIMEOUT | ERROR)]",
        complexity="O(log N) for N connections.",
        arity=-3,
    ),
    "client|no-evict": _operation(
        "Has no effect: no connection is ended for memory.",
        "7.0.0",
        usage="enabled(ON | OFF)",
        arity=3,
    ),
}

_HANDSHAKE: Catalog = {
    "hello": _handshake(
        "Choose the version of the protocol, and say who the client is.",
        "6.0.0",
        usage="[arguments(protover:integer [AUTH/username_password(username password)] "
        "[SETNAME/clientname])]",
        arity=-1,
    ),
    "auth": _handshake(
        "Say who the client is, by a key or a token.",
        "1.0.0",
        usage="[username@6.0.0] password",
        complexity="O(N) for N keys that there are.",
        arity=-2,
    ),
    "quit": _handshake("End the connection.", "1.0.0", arity=-1),
    "reset": _handshake("Let the connection be as it was at first.", "6.2.0", arity=1),
    "select": _command(
        "Choose a database: there is only 0.",
        "1.0.0",
        usage="index:integer",
        flags="loading stale fast",
        arity=2,
    ),
}

_OF_CONNECTION: Catalog = {
    "multi": _transaction("Begin a transaction.", "1.2.0", arity=1),
    "exec": _transaction(
        "Run the commands of the transaction with nothing in between.",
        "1.2.0",
        flags="noscript loading stale skip_slowlog",
        complexity="That of the commands.",
        arity=1,
    ),
    "discard": _transaction(
        "Forget the commands of the transaction.",
        "2.0.0",
        complexity="O(N) for N commands.",
        arity=1,
    ),
    "watch": _transaction(
        "Let EXEC do nothing if one of the keys is changed before.",
        "2.2.0",
        usage="key...",
        keys=(KeyPlaces("RO", last=-1),),
        complexity="O(1) for each key.",
        arity=-2,
    ),
    "unwatch": _transaction("Watch no key any more.", "2.2.0", arity=1),
}

OF_CONNECTIONS: Catalog = {**_CLIENT, **_HANDSHAKE, **_OF_CONNECTION}
"""Commands that need a connection."""

CATALOG: Catalog = {
    "ping": Description(
        "Return PONG, or the given text.",
        "1.0.0",
        "connection",
        "[message]",
        "fast",
        categories="connection",
        tips="request_policy:all_shards response_policy:all_succeeded",
    ),
    "echo": Description(
        "Return the given text.",
        "1.0.0",
        "connection",
        "message",
        "loading stale fast",
        categories="connection",
    ),
    "wait": Description(
        "Return how many replicas have everything that this connection has written: none is known.",
        "3.0.0",
        "generic",
        "numreplicas:integer timeout:integer",
        "noscript",
        categories="connection",
        tips="request_policy:all_shards response_policy:agg_min",
    ),
    "waitaof": Description(
        "Wait until everything that was written is on the disk.",
        "7.2.0",
        "generic",
        "numlocal:integer numreplicas:integer timeout:integer",
        "noscript",
        categories="connection",
        tips="request_policy:all_shards response_policy:agg_min",
    ),
}
