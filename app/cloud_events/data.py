"""Data: the data of an event between bytes and the members of the JSON format (3.1)."""

from base64 import b64encode

import msgspec

from headgate.app.wire.fields import bytes_of

JSON = "application/json"
BASE64 = "data_base64"

PLAIN_BYTES_MAX = 2**20
"""Longer data are sent as base64: to see what is in them would take too long."""

_TEXTS = frozenset(
    {
        "application/graphql",
        "application/javascript",
        "application/sql",
        "application/toml",
        "application/x-ndjson",
        "application/x-www-form-urlencoded",
        "application/xml",
        "application/yaml",
    }
)
"""Media types whose data are characters, beside `text/*` and those with a suffix."""

_raw = msgspec.json.Decoder(msgspec.Raw).decode
_text = msgspec.json.Decoder(str).decode

FAULTS = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)
"""Errors of a text that is no JSON."""


def is_json(content_type: str | None) -> bool:
    """Tell whether data of a content type are JSON; without one they are."""
    if content_type is None:
        return True
    media_type = _media_type(content_type)
    return media_type.endswith(("/json", "+json"))


def _is_text(content_type: str | None) -> bool:
    if content_type is None:
        return False
    media_type = _media_type(content_type)
    if "charset=" in content_type.lower() and "utf-8" not in content_type.lower():
        return False
    return media_type in _TEXTS or media_type.startswith("text/") or media_type.endswith("+xml")


def _media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def member_of(data: bytes, content_type: str | None) -> tuple[str, object]:
    """Return the member of a structured event that has its data: its name, and its value."""
    if len(data) <= PLAIN_BYTES_MAX:
        try:
            if is_json(content_type):
                data.decode()
                return "data", _raw(data)
            if _is_text(content_type):
                return "data", data.decode()
        except FAULTS:  # it is not what its type says
            pass
    return BASE64, b64encode(data).decode()


def data_of(member: bytes, content_type: str | None) -> bytes | None:
    """Return the bytes of the member `data`: of a text that is not JSON, its characters.

    What has another type than JSON and is null is not there.

    Args:
        member: a JSON text.
        content_type: of the data, if it is said.
    """
    if is_json(content_type):
        return member
    if member == b"null":
        return None
    return _text(member).encode() if member.startswith(b'"') else member


def data_of_base64(member: bytes, pointer: str) -> bytes:
    """Return the bytes of the member `data_base64`; `pointer` says where it stood.

    Raises:
        GatewayError: it is no base64 text.
    """
    try:
        text = _text(member)
    except msgspec.ValidationError:
        text = "not a text"  # and no base64
    return bytes_of(text, pointer)
