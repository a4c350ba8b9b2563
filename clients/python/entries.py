"""Entries: the contents of streams, as Python values and as JSON.

A value is `str` if it is valid UTF-8, and `bytes` otherwise. JSON has no bytes: such values are
sent as base64, and the list `base64` names their fields.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

Value = str | bytes
"""The value of a field."""

Fields = Mapping[str, Value]
"""Names and values of an entry to append."""

Pairs = Sequence[tuple[str, Value]]
"""The same as pairs, so that a name may repeat."""


class Gap(NamedTuple):
    """Entries that were trimmed before they were read."""

    first_id: str
    last_id: str


class Entry(NamedTuple):
    """An entry of a stream.

    Attributes:
        id: Id, such as `"1718000000000-0"`.
        fields: Names and values. If a name repeats, its last value.
        pairs: All names and values in order if a name repeats, otherwise None.
        stream: Stream of the entry if several are followed together, otherwise None.
        deliver_at_ms: Unix time in ms before which groups do not deliver the entry. None: no delay.
        expires_at_ms: Unix time in ms from which groups no longer deliver the entry. None: no
            deadline.
    """

    id: str
    fields: dict[str, Value]
    pairs: list[tuple[str, Value]] | None = None
    stream: str | None = None
    deliver_at_ms: int | None = None
    expires_at_ms: int | None = None


class Draft(NamedTuple):
    """An entry to append, with options.

    Attributes:
        fields: Names and values, text or bytes. Use pairs if a name repeats.
        id: Id of the entry. None: the gateway generates it.
        delay_ms: How long groups wait before they deliver the entry: at most 90 days.
        deliver_at_ms: Alternative to `delay_ms`: a unix time in ms.
        ttl_ms: How long groups may deliver the entry.
        expires_at_ms: Alternative to `ttl_ms`: a unix time in ms.
    """

    fields: Fields | Pairs
    id: str | None = None
    delay_ms: int | None = None
    deliver_at_ms: int | None = None
    ttl_ms: int | None = None
    expires_at_ms: int | None = None

    @classmethod
    def of(cls, entry: Fields | Pairs | Entry | Draft) -> Draft:
        """Convert an entry of any form to a draft."""
        if isinstance(entry, Draft):
            return entry
        if not isinstance(entry, Entry):
            return cls(entry)
        times = {"deliver_at_ms": entry.deliver_at_ms, "expires_at_ms": entry.expires_at_ms}
        return cls(entry.pairs or entry.fields, entry.id, **times)

    def encoded(self) -> dict[str, Any]:
        """Return the JSON body of an append."""
        _, *others = self
        named = zip(self._fields[1:], others, strict=True)
        more = {name: value for name, value in named if value is not None}
        return encoded(self.fields) | more


class Delivery(NamedTuple):
    """An entry that was delivered to a consumer of a group.

    Attributes:
        id: Id of the entry.
        fields: Names and values. If a name repeats, its last value.
        deliveries: Number of deliveries, including this one.
        idle_ms: How long the entry had been idle when it was claimed.
        claimed_from: The previous consumer, if the entry was claimed.
        pairs: All names and values in order if a name repeats, otherwise None.
        last_error: Error of the previous delivery, if known.
        deliver_at_ms: Unix time in ms before which groups did not deliver the entry.
        expires_at_ms: Unix time in ms from which groups no longer deliver the entry.
        stream: Stream of the entry if several are read together, otherwise None.
    """

    id: str
    fields: dict[str, Value]
    deliveries: int = 1
    idle_ms: int = 0
    claimed_from: str | None = None
    pairs: list[tuple[str, Value]] | None = None
    last_error: str | None = None
    deliver_at_ms: int | None = None
    expires_at_ms: int | None = None
    stream: str | None = None


class Claimed(NamedTuple):
    """The result of a claim.

    Attributes:
        entries: The claimed entries.
        next_start: Where to continue. `0-0`: all pending entries have been checked.
        deleted_ids: Ids of entries that were pending but are no longer in the stream.
    """

    entries: list[Delivery]
    next_start: str
    deleted_ids: list[str]


def encoded(fields: Fields | Pairs) -> dict[str, Any]:
    """Return fields in the form of the JSON body of an append."""
    pairs = list(fields.items()) if isinstance(fields, Mapping) else list(fields)
    if not all(map(_is_text, dict(pairs))):
        return _encoded_names(pairs)
    binary = {name for name, value in pairs if isinstance(value, bytes)}
    if not binary and isinstance(fields, Mapping):
        return {"fields": dict(fields)}
    if not binary and len({name for name, _ in pairs}) == len(pairs):
        return {"fields": dict(pairs)}
    texts = [(name, _base64(value) if name in binary else value) for name, value in pairs]
    is_map = len({name for name, _ in pairs}) == len(pairs)
    body: dict[str, Any] = {"fields": dict(texts)} if is_map else {"pairs": texts}
    return body | ({"base64": sorted(binary)} if binary else {})


def _is_text(name: str) -> bool:
    """Return whether a name is UTF-8: it has no surrogates, which stand for other bytes."""
    return name.isascii() or not any("\udc80" <= character <= "\udcff" for character in name)


def _encoded_names(pairs: Sequence[tuple[str, Value]]) -> dict[str, Any]:
    names = [_base64(name.encode(errors="surrogateescape")) for name, _ in pairs]
    return encoded([(name, value) for name, (_, value) in zip(names, pairs, strict=True)]) | {
        "names_base64": True
    }


def entry_of(item: Mapping[str, Any]) -> Entry:
    """Return the entry for an item of a JSON answer."""
    if len(item) == 2:
        return Entry(item["id"], item["fields"])
    fields, pairs = decoded(item)
    return Entry(
        item["id"],
        fields,
        pairs,
        item.get("stream"),
        item.get("deliver_at_ms"),
        item.get("expires_at_ms"),
    )


def delivery_of(item: Mapping[str, Any]) -> Delivery:
    """Return the delivery for an item of a JSON answer."""
    if len(item) == 4:
        return Delivery(item["id"], item["fields"], item["deliveries"], item["idle_ms"])
    fields, pairs = decoded(item)
    return Delivery(
        item["id"],
        fields,
        item["deliveries"],
        item["idle_ms"],
        item.get("claimed_from"),
        pairs,
        item.get("last_error"),
        item.get("deliver_at_ms"),
        item.get("expires_at_ms"),
        item.get("stream"),
    )


def decoded(item: Mapping[str, Any]) -> tuple[dict[str, Value], list[tuple[str, Value]] | None]:
    """Return the fields of an entry in an answer, and its pairs if a name repeats."""
    binary = frozenset(item.get("base64") or ())
    repeats = item.get("pairs")
    pairs = [(name, value) for name, value in repeats or item["fields"].items()]
    is_binary_named = item.get("names_base64")
    decoded_pairs: list[tuple[str, Value]] = [
        (_name(name) if is_binary_named else name, _value(value) if name in binary else value)
        for name, value in pairs
    ]
    return dict(decoded_pairs), decoded_pairs if repeats else None


def _base64(value: Value) -> str:
    return base64.b64encode(value.encode() if isinstance(value, str) else value).decode()


def _value(text: str) -> Value:
    value = base64.b64decode(text)
    try:
        return value.decode()  # another value of this name is not UTF-8
    except UnicodeDecodeError:
        return value


def _name(text: str) -> str:
    """Decode a name. Bytes that are not UTF-8 become surrogates, as in file names."""
    return base64.b64decode(text).decode(errors="surrogateescape")
