"""Defaults: what holds for streams that say nothing themselves (CONFIG SET stream-*)."""

from __future__ import annotations

import msgspec

from headgate.engine.limits import CHUNK_BYTES_MAX, CHUNK_ENTRIES_MAX
from headgate.engine.state.entries.packed import NodeLimits


class Defaults(msgspec.Struct, frozen=True, array_like=True):
    node_limits: NodeLimits = NodeLimits(CHUNK_ENTRIES_MAX, CHUNK_BYTES_MAX)
    idempotency_window_ms: int = 100_000
    idempotency_max: int = 100
