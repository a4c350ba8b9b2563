"""What the answer to a change waits for."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, NamedTuple


class DurabilityLevel(StrEnum):
    """The durability of a change when its request is answered."""

    NONE = "none"  # as the server promises: it may be lost with its primary
    FSYNC = "fsync"  # it is on the disk of the primary
    REPLICA = "replica"  # it is on the disk of the primary and of a replica


class Durability(NamedTuple):
    level: DurabilityLevel = DurabilityLevel.NONE
    wait: tuple[bytes, ...] | None = None
    counts: tuple[int, ...] = ()

    def failure(self, reply: Any) -> str | None:
        if isinstance(reply, Exception):  # not all are `ResponseError`: LOADING is none
            return str(reply)
        counts = reply if isinstance(reply, list) else [reply]
        if all(count >= needed for count, needed in zip(counts, self.counts, strict=True)):
            return None
        return f"the change did not become durable in time ({self.level})"


def durability(level: DurabilityLevel, timeout_ms: int, *, has_waitaof: bool) -> Durability:
    """Return the wait for a level of durability.

    The server may wait up to `timeout_ms` for it. Without WAITAOF, a replica need not have written
    to disk.
    """
    timeout = b"%d" % timeout_ms
    match level:
        case DurabilityLevel.NONE:
            return Durability()
        case DurabilityLevel.FSYNC if has_waitaof:
            return Durability(level, (b"WAITAOF", b"1", b"0", timeout), (1, 0))
        case DurabilityLevel.FSYNC:  # the server says `appendfsync always`: see features.py
            return Durability(level)
        case DurabilityLevel.REPLICA if has_waitaof:
            return Durability(level, (b"WAITAOF", b"1", b"1", timeout), (1, 1))
        case DurabilityLevel.REPLICA:
            return Durability(level, (b"WAIT", b"1", timeout), (1,))
