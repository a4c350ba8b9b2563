"""Commands for groups, consumers and what is pending with them."""

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

_command = partial(Description, group="stream", categories="stream")

_POSITION: Final = "key groupname id(id | new_id=$)"
_ENTRIES_READ: Final = "[ENTRIESREAD/entries_read:integer]"
_EACH_ID: Final = "O(1) for each id."

CATALOG: Catalog = {
    "xreadgroup": _command(
        "Deliver entries to a consumer of a group, or show it again what it holds. It may wait.",
        "5.0.0",
        usage="GROUP/group_consumer(group consumer) [COUNT/count:integer] "
        "[BLOCK/milliseconds:integer] [CLAIM/min-idle-time:integer@8.4.0] "
        "[MAXCOUNT/maxcount:integer@8.10.0] [MAXSIZE/maxsize:integer@8.10.0] [NOACK] "
        "STREAMS/streams(key... id...)",
        flags="write blocking",
        keys=(KeyPlaces("RO access", 4, "STREAMS", last=-1, limit=2),),
        complexity="O(N) for N entries of each stream that are delivered.",
    ),
    "xack": _command(
        "Acknowledge entries: they are no longer pending. Return how many were.",
        "5.0.0",
        usage="key group id...",
        flags="write fast",
        keys=ONE_UPDATED,
        complexity=_EACH_ID,
    ),
    "xackdel": _command(
        "Acknowledge entries, and remove them from the stream.",
        "8.2.0",
        usage="key group [condition(KEEPREF | DELREF | ACKED)] IDS/ids(numids:integer id...)",
        flags="write fast",
        keys=(KeyPlaces("RW delete"),),
        complexity=_EACH_ID,
    ),
    "xnack": _command(
        "Give pending entries back to the group, for any consumer to take.",
        "8.8.0",
        usage="key group mode(SILENT | FAIL | FATAL) IDS/ids(numids:integer id...) "
        "[RETRYCOUNT/count:integer] [FORCE]",
        flags="write fast",
        keys=ONE_UPDATED,
        complexity=_EACH_ID,
    ),
    "xpending": _command(
        "Describe what is pending in a group, as a sum or entry by entry.",
        "5.0.0",
        usage="key group [filters([IDLE/min-idle-time:integer@6.2.0] start end count:integer "
        "[consumer])]",
        flags="readonly",
        keys=ONE_READ,
        tips="nondeterministic_output",
        complexity="O(N) for N entries that are returned, or for N consumers of a sum.",
    ),
    "xclaim": _command(
        "Give pending entries that have been idle to another consumer.",
        "5.0.0",
        usage="key group consumer min-idle-time id... [IDLE/ms:integer] "
        "[TIME/unix-time-milliseconds:unix-time] [RETRYCOUNT/count:integer] [FORCE] [JUSTID] "
        "[LASTID/id]",
        flags="write fast",
        keys=ONE_UPDATED,
        tips="nondeterministic_output",
        complexity="O(log N) for N pending entries of the group.",
    ),
    "xautoclaim": _command(
        "Search for pending entries that have been idle, and give them to a consumer.",
        "6.2.0",
        usage="key group consumer min-idle-time start [COUNT/count:integer] [JUSTID]",
        flags="write fast",
        keys=(KeyPlaces("RW delete"),),
        tips="nondeterministic_output",
        complexity="O(1) with a small COUNT.",
    ),
    "xgroup": container("that change groups", "5.0.0", "stream"),
    "xgroup|create": _command(
        "Create a group that reads after an id.",
        "5.0.0",
        usage=f"{_POSITION} [MKSTREAM] {_ENTRIES_READ}",
        flags="write denyoom",
        keys=(KeyPlaces("RW insert", 2),),
    ),
    "xgroup|setid": _command(
        "Let a group read on after another id.",
        "5.0.0",
        usage=f"{_POSITION} {_ENTRIES_READ}",
        flags="write",
        keys=(KeyPlaces("RW update", 2),),
    ),
    "xgroup|destroy": _command(
        "Remove a group with everything that is pending in it.",
        "5.0.0",
        usage="key groupname",
        flags="write",
        keys=(KeyPlaces("RW delete", 2),),
        complexity="O(N) for N entries that are pending.",
    ),
    "xgroup|createconsumer": _command(
        "Create a consumer in a group.",
        "6.2.0",
        usage="key groupname consumername",
        flags="write denyoom",
        keys=(KeyPlaces("RW insert", 2),),
    ),
    "xgroup|delconsumer": _command(
        "Remove a consumer with everything that is pending with it.",
        "5.0.0",
        usage="key groupname consumername",
        flags="write",
        keys=(KeyPlaces("RW delete", 2),),
    ),
    "xgroup|help": help_of("XGROUP", "5.0.0", "stream", "stream"),
}
