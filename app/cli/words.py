"""Client data as text on one line, without control characters."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import click

from headgate.client.entries import Delivery, Entry, Value, encoded

_NEED_QUOTES = frozenset(" \"'=")


def one_line(text: str) -> str:
    """Escape everything that is not a letter, mark or space."""
    return "".join(
        character if character.isprintable() else _escaped(character) for character in text
    )


def word(text: str) -> str:
    """Return text as one word: quoted as JSON if it has spaces, quotes or control characters."""
    if text and text.isprintable() and _NEED_QUOTES.isdisjoint(text):
        return text
    return json_line(text)


def json_line(value: Any) -> str:
    """Return a value as a line of JSON that cannot control a terminal."""
    return one_line(json.dumps(value, ensure_ascii=False))


def pairs_of(entry: Entry | Delivery) -> Iterator[tuple[str, str]]:
    """Yield names and values in order; what is not UTF-8 as base64."""
    item = json_of(entry)
    packed = frozenset(item.get("base64", ()))
    named = "base64:" if item.get("names_base64") else ""
    for name, value in item.get("pairs") or item["fields"].items():
        yield named + word(name), ("base64:" if name in packed else "") + word(value)


def fields_of(words: Sequence[str]) -> list[tuple[str, Value]]:
    pairs: list[tuple[str, Value]] = []
    for each in words:
        name, equals, value = each.partition("=")
        if not equals:
            raise click.UsageError(f"{each!r} does not have the form NAME=VALUE.")
        pairs.append((name, value))
    return pairs


def line_of(entry: Entry | Delivery) -> str:
    stream = entry.stream if isinstance(entry, Entry) else None
    place = [entry.id] if stream is None else [word(stream), entry.id]
    return " ".join([*place, *(f"{name}={value}" for name, value in pairs_of(entry))])


def json_of(entry: Entry | Delivery) -> dict[str, Any]:
    body = encoded(entry.pairs or entry.fields)
    item = {"id": entry.id, "fields": dict(body.get("pairs") or body["fields"]), **body}
    if isinstance(entry, Entry) and entry.stream is not None:
        item = {"stream": entry.stream, **item}
    times = {"deliver_at_ms": entry.deliver_at_ms, "expires_at_ms": entry.expires_at_ms}
    item |= {name: at_ms for name, at_ms in times.items() if at_ms is not None}
    if isinstance(entry, Delivery):
        item |= {"deliveries": entry.deliveries, "idle_ms": entry.idle_ms}
        item |= {} if entry.claimed_from is None else {"claimed_from": entry.claimed_from}
        item |= {} if entry.last_error is None else {"last_error": entry.last_error}
    return item


def _escaped(char: str) -> str:
    return json.dumps(char)[1:-1] if ord(char) < 32 or ord(char) > 126 else f"\\u{ord(char):04x}"
