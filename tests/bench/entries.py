"""The entries that are appended: three short fields with varied values, the same for every peer."""

import random
from collections.abc import Iterator

from headgate.engine.entry import Draft, EntryId, Fields

STARTED_AT_MS = 1_790_000_000_000


def drafts(count: int) -> list[Draft]:
    """Return entries that leave their id to the stream."""
    return [Draft(None, fields) for fields in _readings(count)]


def dated_drafts(count: int) -> Iterator[Draft]:
    """Yield entries with ids some milliseconds apart, so that every peer stores the same."""
    chance, at_ms = random.Random(2), STARTED_AT_MS
    for fields in _readings(count):
        at_ms += chance.randrange(1, 10)
        yield Draft(EntryId(at_ms, 0), fields)


def _readings(count: int) -> Iterator[Fields]:
    chance = random.Random(1)
    for _ in range(count):
        temperature, humidity = b"%.2f" % chance.uniform(-10, 40), b"%d" % chance.randrange(100)
        yield b"temp", temperature, b"hum", humidity, b"site", b"s%d" % chance.randrange(1000)
