"""Commands for keys: here every key is a stream."""

from __future__ import annotations

from functools import partial
from typing import Final

from headgate.app.redis_syntax.catalog.description import (
    ONE_READ,
    ONE_UPDATED,
    Catalog,
    Description,
    KeyPlaces,
    container,
    help_of,
)

_command = partial(Description, group="generic", categories="keyspace")

_SUMMED: Final = "request_policy:multi_shard response_policy:agg_sum"
_CHANGING: Final = "nondeterministic_output"
_CONDITION: Final = "[condition@7.0.0(NX | XX | GT | LT)]"
_EACH_KEY: Final = "O(N) for N keys."
_EACH_ENTRY: Final = "O(N) for N entries."
_OBJECT: Final = (KeyPlaces("RO", 2),)

_LIFE: Catalog = {
    "del": _command(
        "Remove keys; return how many there were.",
        "1.0.0",
        usage="key...",
        flags="write",
        keys=(KeyPlaces("RM delete", last=-1),),
        tips=_SUMMED,
        complexity=_EACH_KEY,
    ),
    "unlink": _command(
        "Remove keys. The same as DEL, which frees memory in small steps as well.",
        "4.0.0",
        usage="key...",
        flags="write fast",
        keys=(KeyPlaces("RM delete", last=-1),),
        tips=_SUMMED,
        complexity=_EACH_KEY,
    ),
    "rename": _command(
        "Give a key another name. A key that has this name is removed.",
        "1.0.0",
        usage="key newkey:key",
        flags="write",
        keys=(KeyPlaces("RW access delete"), KeyPlaces("OW update", 2)),
    ),
    "renamenx": _command(
        "Give a key another name, if no key has it.",
        "1.0.0",
        usage="key newkey:key",
        flags="write fast",
        keys=(KeyPlaces("RW access delete"), KeyPlaces("OW insert", 2)),
    ),
    "copy": _command(
        "Make a copy of a key under another name.",
        "6.2.0",
        usage="source:key destination:key [DB/destination-db:integer] [REPLACE]",
        flags="write denyoom",
        keys=(KeyPlaces("RO access"), KeyPlaces("OW update", 2)),
        complexity=_EACH_ENTRY,
    ),
    "dump": _command(
        "Return a stream as bytes that RESTORE takes.",
        "2.6.0",
        usage="key",
        flags="readonly",
        keys=ONE_READ,
        tips=_CHANGING,
        complexity=_EACH_ENTRY,
    ),
    "restore": _command(
        "Create a stream from the bytes that DUMP returned.",
        "2.6.0",
        usage="key ttl:integer serialized-value [REPLACE@3.0.0] [ABSTTL@5.0.0] "
        "[IDLETIME/seconds:integer@5.0.0] [FREQ/frequency:integer@5.0.0]",
        flags="write denyoom",
        keys=(KeyPlaces("OW update"),),
        categories="keyspace dangerous",
        complexity=_EACH_ENTRY,
    ),
}

_LOOKING: Catalog = {
    "exists": _command(
        "Return how many of the keys exist.",
        "1.0.0",
        usage="key...",
        flags="readonly fast",
        keys=(KeyPlaces("RO", last=-1),),
        tips=_SUMMED,
        complexity=_EACH_KEY,
    ),
    "touch": _command(
        "Return how many of the keys exist. When keys were last used is not kept.",
        "3.2.1",
        usage="key...",
        flags="readonly fast",
        keys=(KeyPlaces("RO", last=-1),),
        tips=_SUMMED,
        complexity=_EACH_KEY,
    ),
    "type": _command(
        "Return the type of a key: stream, or none if it does not exist.",
        "1.0.0",
        usage="key",
        flags="readonly fast",
        keys=(KeyPlaces("RO"),),
    ),
    "keys": _command(
        "Return the names of all keys that match a pattern.",
        "1.0.0",
        usage="pattern:pattern",
        flags="readonly",
        categories="keyspace dangerous",
        tips="request_policy:all_shards nondeterministic_output_order",
        complexity="O(N) for N keys that there are.",
    ),
    "scan": _command(
        "Return the names of keys, a page at a time.",
        "2.8.0",
        usage="cursor:integer [MATCH/pattern:pattern] [COUNT/count:integer] [TYPE/type@6.0.0]",
        flags="readonly",
        tips=f"{_CHANGING} request_policy:special",
        complexity="O(1) for each page.",
    ),
    "randomkey": _command(
        "Return the name of some key.",
        "1.0.0",
        flags="readonly",
        tips=f"request_policy:all_shards {_CHANGING}",
    ),
    "object": container("that tell how a key is kept", "2.2.3", "generic"),
    "object|encoding": _command(
        "Return how a key is kept: always as a stream.",
        "2.2.3",
        usage="key",
        flags="readonly",
        keys=_OBJECT,
        tips=_CHANGING,
    ),
    "object|freq": _command(
        "Return how often a key is used, which is not kept.",
        "4.0.0",
        usage="key",
        flags="readonly",
        keys=_OBJECT,
        tips=_CHANGING,
    ),
    "object|idletime": _command(
        "Return for how long a key was not used.",
        "2.2.3",
        usage="key",
        flags="readonly",
        keys=_OBJECT,
        tips=_CHANGING,
    ),
    "object|refcount": _command(
        "Return how often a value is referred to: always once.",
        "2.2.3",
        usage="key",
        flags="readonly",
        keys=_OBJECT,
        tips=_CHANGING,
    ),
    "object|help": help_of("OBJECT", "6.2.0", "generic", "keyspace"),
}

_EXPIRY: Catalog = {
    "expire": _command(
        "Let a key expire in so many seconds.",
        "1.0.0",
        usage=f"key seconds:integer {_CONDITION}",
        flags="write fast",
        keys=ONE_UPDATED,
    ),
    "pexpire": _command(
        "Let a key expire in so many milliseconds.",
        "2.6.0",
        usage=f"key milliseconds:integer {_CONDITION}",
        flags="write fast",
        keys=ONE_UPDATED,
    ),
    "expireat": _command(
        "Let a key expire at a unix time, in seconds.",
        "1.2.0",
        usage=f"key unix-time-seconds:unix-time {_CONDITION}",
        flags="write fast",
        keys=ONE_UPDATED,
    ),
    "pexpireat": _command(
        "Let a key expire at a unix time, in milliseconds.",
        "2.6.0",
        usage=f"key unix-time-milliseconds:unix-time {_CONDITION}",
        flags="write fast",
        keys=ONE_UPDATED,
    ),
    "persist": _command(
        "Let a key no longer expire.",
        "2.2.0",
        usage="key",
        flags="write fast",
        keys=ONE_UPDATED,
    ),
    "ttl": _command(
        "Return in how many seconds a key expires.",
        "1.0.0",
        usage="key",
        flags="readonly fast",
        keys=ONE_READ,
        tips=_CHANGING,
    ),
    "pttl": _command(
        "Return in how many milliseconds a key expires.",
        "2.6.0",
        usage="key",
        flags="readonly fast",
        keys=ONE_READ,
        tips=_CHANGING,
    ),
    "expiretime": _command(
        "Return the unix time at which a key expires, in seconds.",
        "7.0.0",
        usage="key",
        flags="readonly fast",
        keys=ONE_READ,
    ),
    "pexpiretime": _command(
        "Return the unix time at which a key expires, in milliseconds.",
        "7.0.0",
        usage="key",
        flags="readonly fast",
        keys=ONE_READ,
    ),
}

CATALOG: Catalog = {**_LIFE, **_LOOKING, **_EXPIRY}
