"""The effect of each command on a stream that is watched, as redis-server tells it."""

from __future__ import annotations

from tests.model.redis_server import lines

STREAM = (
    "XADD s 1-1 a 1",
    "XADD s 2-1 a 1",
    "XGROUP CREATE s g 0",
    "XGROUP CREATECONSUMER s g c",
    "XREADGROUP GROUP g c COUNT 1 STREAMS s >",
    "XADD t 1-1 a 1",
)

ACTS = lines(
    "XADD s 3-1 a 1 / XADD s 1-0 a 1 / XADD s MAXLEN 1 3-1 a 1 / XDEL s 1-1 / XDEL s 9-9 / "
    "XTRIM s MAXLEN 1 / XTRIM s MAXLEN 0 / XTRIM s MAXLEN 9 / XTRIM s MINID 2 / XSETID s 9-9 / "
    "XSETID s 2-1 / XGROUP CREATE s h 0 / XGROUP CREATE s g 0 / XGROUP SETID s g 0 / "
    "XGROUP DESTROY s g / XGROUP DESTROY s h / XGROUP CREATECONSUMER s g d / "
    "XGROUP DELCONSUMER s g c / XACK s g 1-1 / XREADGROUP GROUP g c STREAMS s > / "
    "XREADGROUP GROUP g c NOACK STREAMS s > / XREADGROUP GROUP g c STREAMS s 0 / "
    "XCLAIM s g d 0 1-1 / XAUTOCLAIM s g d 0 0 / DEL s / UNLINK s / RENAME s u / RENAME t s / "
    "RENAME s s / EXPIRE s 100 / EXPIRE s 100 XX / EXPIRE s -1 / PERSIST s / FLUSHALL / DEL t / "
    "XRANGE s - + / XINFO STREAM s FULL"
)
HISTORIES: list[tuple[tuple[str, ...], tuple[str, ...]]] = [
    *[(STREAM, (act,)) for act in ACTS],
    ((*STREAM, "PEXPIRE s 100000"), ("PERSIST s",)),
    ((*STREAM, "PEXPIRE s 100000"), ("PEXPIRE s 200000",)),
    (STREAM, ("XADD s 3-1 a 1", "XDEL s 3-1")),
    (STREAM, ("DEL s", "XADD s 1-1 a 1", "XADD s 2-1 a 1")),
    ((), ("XADD s 1-1 a 1",)),
    ((), ("XADD s 1-1 a 1", "DEL s")),
    ((), ("XADD s 1-1 a 1", "FLUSHALL")),
    ((), ("FLUSHALL",)),
    ((), ("XADD t 1-1 a 1", "DEL t")),
    ((), ("XADD t 1-1 a 1", "FLUSHALL")),
    ((), ("XADD s NOMKSTREAM 1-1 a 1",)),
    ((), ("XGROUP CREATE s g 0 MKSTREAM",)),
    ((), ("XADD t 1-1 a 1", "RENAME t s")),
    ((), ("DEL s",)),
    ((), ("XTRIM s MAXLEN 1",)),
]
"""Commands that make the state, and then those after WATCH s."""
