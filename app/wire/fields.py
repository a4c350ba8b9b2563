"""Fields between bytes and the wire, without loss.

Text is the rule. A value that is not UTF-8 is sent as base64 and its name is listed in `base64`; if
a name is not UTF-8 either, all names are sent as base64 and `names_base64` says so. If a name
repeats, `pairs` has all fields in order.
"""

import base64 as codec
import binascii
from typing import Annotated, NotRequired

from pydantic import Field
from typing_extensions import TypeAliasType, TypedDict

from headgate.app.wire.problems import GatewayError
from headgate.engine.entry import Fields

# Named types: without a name of ours, generated clients make one up.
FieldMap = TypeAliasType(
    "FieldMap",
    Annotated[dict[str, str], Field(description="The entry's fields.", examples=[{"sku": "42"}])],
)

Pair = Annotated[
    list[str],
    Field(min_length=2, max_length=2, description="A name and a value.", examples=[["sku", "42"]]),
]


class FieldsRead(TypedDict):
    fields: FieldMap
    base64: NotRequired[
        Annotated[
            list[str], Field(description="Names of fields whose values are base64 text of bytes.")
        ]
    ]
    pairs: NotRequired[
        Annotated[list[Pair], Field(description="All fields in order, where a name repeats.")]
    ]
    names_base64: NotRequired[
        Annotated[
            bool, Field(description="True if a name is not UTF-8: then all names are base64 text.")
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
    names_packed = any(not _is_text(name) for name in flat[0::2])
    pairs = list(zip(flat[0::2], flat[1::2], strict=True))
    packed = {name for name, value in pairs if not _is_text(value)}

    def name_of(name: bytes) -> str:
        return codec.b64encode(name).decode() if names_packed else name.decode()

    wire = [
        [name_of(name), codec.b64encode(value).decode() if name in packed else value.decode()]
        for name, value in pairs
    ]
    fields: FieldsRead = {"fields": dict(wire)}
    if packed:
        fields["base64"] = sorted(name_of(name) for name in packed)
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


def _is_text(value: bytes) -> bool:
    if len(value) > _LONG_BYTES:  # to replace each wrong byte of a thousand takes ten times as long
        try:
            value.decode()
        except UnicodeDecodeError:
            return False
        return True
    # What cannot be decoded becomes U+FFFD; an exception for each would take five times as long.
    text = value.decode(errors="replace")
    return "\ufffd" not in text or text.encode() == value


def bytes_of(value: str, field: str) -> bytes:
    """Decode base64. Raises GatewayError; `field` is its place in the request."""
    try:
        return codec.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise GatewayError("invalid_request", "should be base64 text", pointer=field) from None
