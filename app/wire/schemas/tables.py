"""Tables: the latest entry of each key of a stream, as rows."""

import base64
from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from headgate.app.wire.problems import GatewayError
from headgate.app.wire.schemas.entries import Entry, FieldsInput, IdText
from headgate.engine.limits import ROW_KEY_BYTES_MAX

_BASE64 = "base64:"

_KEY = (
    "The value of the key field. One that is no text is written as `base64:` and base64 text, and "
    "so is one that is empty or begins with `base64:`."
)


def key_text(key: bytes) -> str:
    """Return a key as text, from which `key_of_text` makes the same key."""
    try:
        text = key.decode()
    except UnicodeDecodeError:
        text = ""
    if not text or text.startswith(_BASE64):
        return _BASE64 + base64.b64encode(key).decode()
    return text


def key_of_text(text: str, *, pointer: str) -> bytes:
    """Return the key that a text stands for. Raises GatewayError."""
    if not text.startswith(_BASE64):
        return text.encode(errors="surrogatepass")
    try:
        return base64.b64decode(text.removeprefix(_BASE64), validate=True)
    except ValueError:
        raise GatewayError("invalid_request", "should be base64 text", pointer=pointer) from None


def check_key(key: bytes, *, pointer: str) -> bytes:
    if len(key) > ROW_KEY_BYTES_MAX:
        text = f"a key has at most {ROW_KEY_BYTES_MAX} bytes"
        raise GatewayError("invalid_request", text, pointer=pointer)
    return key


class Row(Entry):
    """The latest entry of a key."""

    key: Annotated[str, Field(description=_KEY)]


class RowRemoval(TypedDict):
    """A row that is gone, by an entry with the `tombstone_field`."""

    key: Annotated[str, Field(description=_KEY)]
    id: IdText
    fields: None


class TableRows(TypedDict):
    """Rows of a table, in byte order of their keys."""

    rows: list[Row]
    next_after_key: Annotated[
        str | None,
        Field(
            description="Pass it as `after_key`, with `as_of`, for the next page; null: this was "
            "the last."
        ),
    ]
    as_of: Annotated[
        IdText,
        Field(
            description="The rows are as they were when this was the last id of the stream. What "
            "comes after it is what changes them."
        ),
    ]


class RowFields(FieldsInput):
    """The fields of a row. The key field is added."""

    def _leaves_fields(self) -> bool:
        return not self.fields and not self.pairs


class RowWritten(TypedDict):
    """The entry that changed a row."""

    key: Annotated[str, Field(description=_KEY)]
    id: IdText
