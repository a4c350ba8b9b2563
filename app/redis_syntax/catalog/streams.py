"""Commands for the entries of streams."""

from __future__ import annotations

from functools import partial
from typing import Final

from headgate.app.redis_syntax.catalog.description import (
    ONE_OF_TWO_WORDS,
    ONE_READ,
    ONE_UPDATED,
    Catalog,
    Description,
    KeyPlaces,
    container,
    help_of,
)

_command = partial(Description, group="stream", categories="stream")

_STREAMS: Final = "STREAMS/streams(key... id...)"
_REFERENCES: Final = "[condition@8.2.0(KEEPREF | DELREF | ACKED)]"
_TRIM: Final = (
    "trim(strategy(MAXLEN | MINID@6.2.0) [operator(equal== | approximately=~)] threshold "
    "[LIMIT/count:integer@6.2.0])"
)
_IDEMPOTENCY: Final = (
    "[idmp@8.6.0(IDMPAUTO/producer-id | IDMP/idmp-ids(producer-id idempotent-id))]"
)
_READ_BOUNDS: Final = "[MAXCOUNT/maxcount:integer@8.10.0] [MAXSIZE/maxsize:integer@8.10.0]"
_EACH_READ: Final = "O(N) for N entries that are returned."

CATALOG: Catalog = {
    "xadd": _command(
        "Append an entry to a stream. A stream that does not exist is created.",
        "5.0.0",
        usage=f"key [NOMKSTREAM@6.2.0] {_REFERENCES} {_IDEMPOTENCY} [{_TRIM}] "
        "id_or_auto(auto_id=* | id) field_value(field value)...",
        flags="write denyoom fast",
        keys=ONE_UPDATED,
        tips="nondeterministic_output",
        complexity="O(1), and O(N) for N entries that it trims.",
    ),
    "xtrim": _command(
        "Remove the oldest entries of a stream, down to a length or an id.",
        "5.0.0",
        usage=f"key {_TRIM} {_REFERENCES}",
        flags="write",
        keys=(KeyPlaces("RW delete"),),
        tips="nondeterministic_output",
        complexity="O(N) for N entries that it removes, a whole chunk at a time.",
    ),
    "xlen": _command(
        "Return how many entries a stream has.",
        "5.0.0",
        usage="key",
        flags="readonly fast",
        keys=(KeyPlaces("RO"),),
    ),
    "xrange": _command(
        "Return the entries between two ids, the oldest first.",
        "5.0.0",
        usage="key start end [COUNT/count:integer]",
        flags="readonly",
        keys=ONE_READ,
        complexity=_EACH_READ,
    ),
    "xrevrange": _command(
        "Return the entries between two ids, the newest first.",
        "5.0.0",
        usage="key end start [COUNT/count:integer]",
        flags="readonly",
        keys=ONE_READ,
        complexity=_EACH_READ,
    ),
    "xread": _command(
        "Return the entries of streams that come after the given ids. It may wait for them.",
        "5.0.0",
        usage="[COUNT/count:integer] [BLOCK/milliseconds:integer] " + f"{_READ_BOUNDS} {_STREAMS}",
        flags="readonly blocking",
        keys=(KeyPlaces("RO access", 1, "STREAMS", last=-1, limit=2),),
        complexity="O(N) for N entries of each stream that are returned.",
    ),
    "xdel": _command(
        "Remove entries by id; return how many there were.",
        "5.0.0",
        usage="key id...",
        flags="write fast",
        keys=(KeyPlaces("RW delete"),),
        complexity="O(1) for each id.",
    ),
    "xdelex": _command(
        "Remove entries by id, and say what happens to their places in groups.",
        "8.2.0",
        usage=f"key {_REFERENCES.replace('@8.2.0', '')} IDS/ids(numids:integer id...)",
        flags="write fast",
        keys=(KeyPlaces("RW delete"),),
        complexity="O(1) for each id.",
    ),
    "xsetid": _command(
        "Set the last id and the counters of a stream.",
        "5.0.0",
        usage="key last-id [ENTRIESADDED/entries_added:integer@7.0.0] "
        "[MAXDELETEDID/max_deleted_entry_id@7.0.0]",
        flags="write denyoom fast",
        keys=ONE_UPDATED,
    ),
    "xcfgset": _command(
        "Set how long and how many idempotency keys a stream remembers.",
        "8.6.0",
        usage="key [IDMP-DURATION/duration:integer] [IDMP-MAXSIZE/maxsize:integer]",
        flags="write fast",
        keys=ONE_UPDATED,
    ),
    "xidmprecord": _command(
        "Note that an entry was appended under an idempotency key.",
        "8.6.2",
        usage="key producer-id idempotent-id id",
        flags="write denyoom fast",
        keys=ONE_UPDATED,
    ),
    "xinfo": container("that describe streams", "5.0.0", "stream"),
    "xinfo|stream": _command(
        "Describe a stream.",
        "5.0.0",
        usage="key [FULL/full([COUNT/count:integer])]",
        flags="readonly",
        keys=ONE_OF_TWO_WORDS,
    ),
    "xinfo|groups": _command(
        "Describe the groups of a stream.",
        "5.0.0",
        usage="key",
        flags="readonly",
        keys=ONE_OF_TWO_WORDS,
    ),
    "xinfo|consumers": _command(
        "Describe the consumers of a group.",
        "5.0.0",
        usage="key groupname",
        flags="readonly",
        keys=ONE_OF_TWO_WORDS,
        tips="nondeterministic_output",
    ),
    "xinfo|help": help_of("XINFO", "5.0.0", "stream", "stream"),
}
