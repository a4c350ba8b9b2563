"""Fields between bytes and the wire, without loss.

Text is the rule. A value that is not UTF-8 is sent as base64 and its name is listed in `base64`; if
a name is not UTF-8 either, all names are sent as base64 and `names_base64` says so. If a name
repeats, `pairs` has all fields in order.
"""

import binascii
from typing import Annotated, NotRequired

import pybase64
from pydantic import Field
from typing_extensions import TypeAliasType, TypedDict

from headgate.app.wire.problems import GatewayError
from headgate.engine.entry import Fields

# Named types: without a name of ours, generated clients make one up.
FieldMap = TypeAliasType(
    "FieldMap",
    Annotated[dict[str, str], Field(description="Fields of the entry.", examples=[{"sku": "42"}])],
)

Pair = Annotated[
    list[str],
    Field(min_length=2, max_length=2, description="A name and a value.", examples=[["sku", "42"]]),
]


class FieldsRead(TypedDict):
    fields: FieldMap
    base64: NotRequired[
        Annotated[
            list[str], Field(description="Names of fields whose values are base64-encoded bytes.")
        ]
    ]
    pairs: NotRequired[
        Annotated[
            list[Pair], Field(description="All fields in order, if a name occurs more than once.")
        ]
    ]
    names_base64: NotRequired[
        Annotated[
            bool,
            Field(description="True if a name is not UTF-8. All names are then base64-encoded."),
        ]
    ]


_LONG_BYTES = 48
"""A value that takes longer to read than an exception, if each of its bytes is wrong."""


def wire_fields(flat: Fields) -> FieldsRead:
    """Return the wire parts of an entry's fields; parts that are not needed are left out."""
    texts = map(bytes.decode, flat)
    try:
        fields = dict(zip(texts, texts, strict=True))
    except UnicodeDecodeError:
        return _binary_fields(flat)
    if 2 * len(fields) == len(flat):
        return {"fields": fields}
    texts = map(bytes.decode, flat)
    return {"fields": fields, "pairs": [list(pair) for pair in zip(texts, texts, strict=True)]}


def _binary_fields(flat: Fields) -> FieldsRead:
    names, values = flat[0::2], flat[1::2]
    shown = [text for text in map(_text, names) if text is not None]
    names_packed = len(shown) < len(names)
    if names_packed:
        shown = [pybase64.b64encode_as_string(name) for name in names]
    texts = [*map(_text, values)]
    packed = {name for name, text in zip(shown, texts, strict=True) if text is None}
    wire = [
        [name, pybase64.b64encode_as_string(value) if text is None or name in packed else text]
        for name, value, text in zip(shown, values, texts, strict=True)
    ]
    fields: FieldsRead = {"fields": dict(wire)}
    if packed:
        fields["base64"] = sorted(packed)
    if len(fields["fields"]) < len(wire):
        fields["pairs"] = wire
    if names_packed:
        fields["names_base64"] = True
    return fields


def json_bytes(value: bytes) -> int:
    """Return an approximate upper bound of the size of a name or value in JSON, in bytes."""
    escapes_bytes = 5 * len(value.translate(None, _PLAIN))
    return max(len(value) + escapes_bytes, 0 if value.isascii() else len(value) * 4 // 3)


_PLAIN = bytes(set(range(256)) - set(range(32)) - {*b'"\\'})
"""Bytes that stand for themselves in JSON; all others take six at most."""


def _text(value: bytes) -> str | None:
    """Return a name or value as text, or None if it is not UTF-8."""
    if len(value) > _LONG_BYTES:  # to replace each wrong byte of a thousand takes ten times as long
        try:
            return value.decode()
        except UnicodeDecodeError:
            return None
    # What cannot be decoded becomes U+FFFD; an exception for each would take five times as long.
    text = value.decode(errors="replace")
    return text if "\ufffd" not in text or text.encode() == value else None


def bytes_of(value: str, field: str) -> bytes:
    """Decode base64. Raises GatewayError; `field` is its place in the request."""
    try:
        return pybase64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise GatewayError("invalid_request", "should be base64 text", pointer=field) from None
