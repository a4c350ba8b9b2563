"""Types: RDB's numbers for types of values, and the versions that have them."""

from __future__ import annotations

from enum import IntEnum


class StreamType(IntEnum):
    """A type of streams. Each has what the types before it have, and more."""

    LISTPACKS = 15  # Redis 5
    LISTPACKS_2 = 19  # Redis 7.0: first id, greatest deleted id, entries added, entries read
    LISTPACKS_3 = 21  # Redis 7.2, Valkey: when a consumer was active
    LISTPACKS_4 = 26  # Redis 8.6: idempotency keys
    LISTPACKS_5 = 27  # Redis 8.8: pending entries that nobody owns


_SINCE = {
    10: StreamType.LISTPACKS_2,
    11: StreamType.LISTPACKS_3,
    13: StreamType.LISTPACKS_4,
    14: StreamType.LISTPACKS_5,
}

WIDEST_VERSION = 10
"""The version that all of Redis from 7.0 and Valkey from 7.2 on read."""

KEYS_VERSION = 13
"""The first version that has idempotency keys. Redis reads it from 8.6 on."""

NEWEST_VERSION = 15
"""That of Redis 8.10. Valkey counts from 80 on since Valkey 9, so that nobody mixes them up."""

VALKEY_VERSION = 80
"""That of Valkey 9. What is between is for neither."""


def stream_type(version: int) -> StreamType:
    """Return the type of streams in a version of RDB, which is that of Redis and not of Valkey."""
    return max((kind for since, kind in _SINCE.items() if since <= version), default=StreamType(15))


def is_known(version: int) -> bool:
    """Tell whether a payload of that version can be read."""
    return 1 <= version <= NEWEST_VERSION or version == VALKEY_VERSION
