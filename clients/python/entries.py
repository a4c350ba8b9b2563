"""Entries: what streams hold, as Python values and as JSON.

A value is text where it is UTF-8, and bytes where it is not. JSON has no bytes: such values travel
as base64, and a list names their fields.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

Value = str | bytes
"""Of a field."""

Fields = Mapping[str, Value]
"""Names and values, as an append takes them."""

Pairs = Sequence[tuple[str, Value]]
"""Likewise, where a name may repeat."""


class Gap(NamedTuple):
    """Entries that trimming took before they were read."""

    first_id: str
    last_id: str


class Entry(NamedTuple):
    """One entry of a stream.

    Attributes:
        id: `"1718000000000-0"`.
        fields: names and values. If a name repeats, its last value.
        pairs: all names and values in order, if a name repeats; or else None.
        stream: of the entry, if several are followed together; or else None.
        deliver_at_ms: groups deliver it no sooner (unix ms); None: at once.
        expires_at_ms: groups deliver it no more from then on; None: it has no deadline.
    """

    id: str
    fields: dict[str, Value]
    pairs: list[tuple[str, Value]] | None = None
    stream: str | None = None
    deliver_at_ms: int | None = None
    expires_at_ms: int | None = None


class Draft(NamedTuple):
    """An entry to append, with more than its fields.

    Attributes:
        fields: names and values, text or bytes; pairs where a name repeats.
        id: of the entry; None: the gateway makes it.
        delay_ms: groups deliver it so much later, by 90 days at most.
        deliver_at_ms: instead: no sooner than this unix time.
        ttl_ms: groups deliver it for so long, and then no more.
        expires_at_ms: instead: until this unix time.
    """

    fields: Fields | Pairs
    id: str | None = None
    delay_ms: int | None = None
    deliver_at_ms: int | None = None
    ttl_ms: int | None = None
    expires_at_ms: int | None = None

    @classmethod
    def of(cls, entry: Fields | Pairs | Entry | Draft) -> Draft:
        """Return an entry of any form as a draft."""
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
    """An entry that a consumer of a group was given.

    Attributes:
        id: of the entry.
        fields: its names and values.
        deliveries: how often it was delivered, this time included.
        idle_ms: how long it had been idle when it was claimed.
        claimed_from: the consumer that it was taken from, if it was.
        pairs: all names and values in order, if a name repeats.
        last_error: why it was given back before, if that is known.
        deliver_at_ms: groups delivered it no sooner (unix ms).
        expires_at_ms: groups deliver it no more from then on.
        stream: of the entry, if several are read together; or else None.
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
        entries: that are its own now.
        next_start: go on from here; `0-0`: everything pending was looked at.
        deleted_ids: entries that were pending and are no longer in the stream.
    """

    entries: list[Delivery]
    next_start: str
    deleted_ids: list[str]


def encoded(fields: Fields | Pairs) -> dict[str, Any]:
    """Return fields as the JSON body of an append has them."""
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
    """Tell whether a name is UTF-8: it has no surrogates, which stand for other bytes."""
    return name.isascii() or not any("\udc80" <= character <= "\udcff" for character in name)


def _encoded_names(pairs: Sequence[tuple[str, Value]]) -> dict[str, Any]:
    names = [_base64(name.encode(errors="surrogateescape")) for name, _ in pairs]
    return encoded([(name, value) for name, (_, value) in zip(names, pairs, strict=True)]) | {
        "names_base64": True
    }


def entry_of(item: Mapping[str, Any]) -> Entry:
    """Return an entry of a JSON answer."""
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
    """Return a delivery of a JSON answer."""
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
    """Return a name; bytes that are not UTF-8 become surrogates, as in file names."""
    return base64.b64decode(text).decode(errors="surrogateescape")
