"""Places of keys: which words of a command are keys (COMMAND GETKEYS)."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.app.redis_syntax.catalog.description import Description, KeyPlaces


def keys_among(words: Sequence[bytes], description: Description) -> list[tuple[bytes, KeyPlaces]]:
    """Return the keys among the words of a command, each with what is done with it.

    No key is returned if the words do not fit the command.
    """
    result: list[tuple[bytes, KeyPlaces]] = []
    for keys in description.keys:
        places = _places(words, keys)
        if places is None:
            return []
        result += [(words[place], keys) for place in places]
    return result


def _places(words: Sequence[bytes], keys: KeyPlaces) -> range | None:
    """Return the places of keys; None if a keyword or a key is missing."""
    first = keys.begin
    if keys.keyword is not None:
        keyword = keys.keyword.encode()
        places = range(keys.begin, len(words) - 1)  # a word at the end has no key behind it
        first = next((place + 1 for place in places if words[place].upper() == keyword), 0)
        if not first:
            return None
    last = first + keys.last
    if keys.last < 0:
        last = len(words) + keys.last
        if keys.limit:
            last = first + (len(words) - first) // keys.limit + keys.last
    return range(first, last + 1, keys.step) if last < len(words) else None
