"""Streams at random, as images: ids, fields, groups and pending entries of all kinds."""

from random import Random

from headgate.app.rdb.listpack import portions
from headgate.engine import images
from headgate.engine.entry import MAX_ID, MIN_ID, Entry, EntryId

INTEGERS = [0, 1, 127, 128, -1, 4095, 4096, -4096, -4097, 32767, 32768, 2**23, 2**31, -(2**31) - 1]
INTEGERS += [2**63 - 1, -(2**63), 2**63, -(2**63) - 1]
ODD = [b"", b"-0", b"01", b"+1", b" 1", b"1 ", b"-", b"\xff", b"\x00" * 70, b"9" * 20]


def value(pick: Random) -> bytes:
    """Return a name or a value."""
    kind = pick.randint(0, 9)
    if kind < 4:
        return b"%d" % pick.choice([*INTEGERS, pick.randint(-200, 200)])
    if kind < 5:
        return pick.choice(ODD)
    return pick.randbytes(pick.choice([3, 3, 3, 63, 64, 65, 127, 130, 4095, 4096, 17_000]))


def image(pick: Random, *, count: int = 150) -> images.StreamImage:
    """Return a stream with about so many entries."""
    entries, entry_id = [], EntryId(pick.choice([0, 5, 2**63, 2**64 - 10_000]), 0)
    names = tuple(value(pick) for _ in range(pick.randint(1, 3)))
    for _ in range(pick.randint(0, count)):
        ms = entry_id.ms + pick.choice([0, 0, 1, 40])
        entry_id = EntryId(ms, pick.randint(0, 2**64 - 1)) if ms > entry_id.ms else entry_id.next()
        own = names if pick.random() < 0.8 else (value(pick), value(pick))
        entries.append(Entry(entry_id, tuple(part for name in own for part in (name, value(pick)))))
    counters = images.CountersImage(
        pick.choice([entry_id, entry_id.next()]),
        pick.choice([MIN_ID, entry_id]),
        len(entries) + pick.choice([0, 7]),
    )
    groups = [
        _group(pick, name, entries) for name in (b"g", b"", b"\xfe\x00")[: pick.randint(0, 3)]
    ]
    return stream_of(entries, counters, groups)


def stream_of(
    entries: list[Entry], counters: images.CountersImage, groups: list[images.GroupImage]
) -> images.StreamImage:
    """Return a stream with these entries."""
    return images.StreamImage(
        list(map(images.EntriesImage.of, portions(entries))), counters, groups
    )


def entries_of(stream: images.StreamImage) -> list[Entry]:
    """Return the entries of a stream."""
    return [entry for entries in images.unpacked(stream.chunks) for entry in entries]


def _group(pick: Random, name: bytes, entries: list[Entry]) -> images.GroupImage:
    names = [b"a", b"b", b"1"][: pick.randint(0, 3)]
    consumers = [
        images.ConsumerImage(each, pick.randint(0, 2**41), pick.choice([None, 5])) for each in names
    ]
    ids = sorted({entry.id for entry in entries if pick.random() < 0.3} | {MIN_ID.next(), MAX_ID})
    pending = [
        images.PendingImage(
            each, pick.randrange(-1, len(names)), pick.randint(0, 2**41), 1 << at % 63
        )
        for at, each in enumerate(ids)
    ]
    pending = [each if each.consumer >= 0 else each._replace(delivered_at_ms=0) for each in pending]
    return images.GroupImage(name, pick.choice(ids), pick.choice([None, 0, 9]), consumers, pending)


def with_keys(stream: images.StreamImage) -> images.StreamImage:
    """Return the stream with idempotency keys."""
    used = [(b"%d" % at, entry.id) for at, entry in enumerate(entries_of(stream)[:9])]
    keys = images.KeysImage(100_000, 50, {b"p": used, b"": []}, 12, 3)
    return images.StreamImage(stream.chunks, stream.counters, stream.groups, keys)
