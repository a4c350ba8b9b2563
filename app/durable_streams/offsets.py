"""Offsets: places in a stream as the protocol writes them, and the cursors of live reads."""

import re
from random import Random

from headgate.app.wire.problems import GatewayError
from headgate.engine.entry import MIN_ID, EntryId
from headgate.engine.limits import U64_MAX
from headgate.engine.requests.entries import From

BEGINNING = "-1"
NOW = "now"

_OFFSET = re.compile(r"([0-9]{1,20})_([0-9]{1,20})")
_CURSOR = re.compile(r"[0-9]{1,15}")
_EPOCH_MS = 1_728_432_000_000  # 2024-10-09, from which the protocol counts
_INTERVAL_MS = 20_000
_JITTER_S_MAX = 3600


def offset_of(entry_id: EntryId) -> str:
    """Return the place behind an entry. Places sort as texts as their entries do."""
    return f"{entry_id.ms:020d}_{entry_id.seq:020d}"


def parse_offset(text: str, *, pointer: str) -> EntryId:
    """Read a place that `offset_of` has written.

    Raises:
        GatewayError: it is none.
    """
    match = _OFFSET.fullmatch(text)
    numbers = (0, 0) if match is None else (int(match[1]), int(match[2]))
    if match is None or max(numbers) > U64_MAX:
        raise GatewayError("malformed", "this is no offset of a stream", pointer=pointer)
    return EntryId(*numbers)


def parse_start(text: str) -> EntryId | From:
    """Read the beginning of a read: an offset, `-1` or `now`.

    Raises:
        GatewayError: it is none of them.
    """
    if text == BEGINNING:
        return MIN_ID
    return From.NOW if text == NOW else parse_offset(text, pointer="/query/offset")


def cursor_after(asked: str | None, now_ms: int, chance: Random) -> str:
    """Return the cursor of a live answer: a number of the interval that it is made in.

    Caches answer by it. It is above the one that the client has sent, so nobody is answered by the
    same cache again and again.
    """
    interval = max(now_ms - _EPOCH_MS, 0) // _INTERVAL_MS
    if asked is not None and _CURSOR.fullmatch(asked) and int(asked) >= interval:
        jitter_ms = chance.randint(1, _JITTER_S_MAX) * 1000
        return str(int(asked) + max(jitter_ms // _INTERVAL_MS, 1))
    return str(interval)
