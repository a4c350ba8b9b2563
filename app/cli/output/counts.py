"""Counts with their nouns, as people read them."""


def counted(count: int, noun: str, plural: str = "") -> str:
    """Return a count with its noun: `1 entry`, `2,000 entries`.

    Args:
        count: of what the noun names.
        noun: for a count of 1.
        plural: for the others, if it is more than the noun with an `s`.
    """
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def counted_entries(count: int) -> str:
    """Return a count of entries: `1 entry`, `2,000 entries`."""
    return counted(count, "entry", "entries")


def contents(records: int, streams: int, entries: int, pending: int) -> str:
    """Return the size of a journal, and of the keyspace that it leads to."""
    sizes = counted(streams, "stream"), counted_entries(entries), f"{pending:,} pending"
    return f"{counted(records, 'record')}: {', '.join(sizes)}"
