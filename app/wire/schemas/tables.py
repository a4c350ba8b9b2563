"""Tables: the latest entry of each key of a stream, as rows."""

import base64
from typing import Annotated

from pydantic import ConfigDict, Field
from typing_extensions import TypedDict

from headgate.app.wire.problems import GatewayError
from headgate.app.wire.schemas.entries import FIELDS_OR_PAIRS_OR_NONE, Entry, FieldsInput, IdText
from headgate.engine.limits import ROW_KEY_BYTES_MAX

_BASE64 = "base64:"

_KEY = (
    "Value of the key field. It is written as `base64:` followed by base64 if it is empty, is not "
    "UTF-8, or starts with `base64:`."
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
        text = f"a key may have at most {ROW_KEY_BYTES_MAX} bytes"
        raise GatewayError("invalid_request", text, pointer=pointer)
    return key


class Row(Entry):
    """The latest entry of a key."""

    key: Annotated[str, Field(description=_KEY)]


class RowRemoval(TypedDict):
    """A row that was removed by an entry with the `tombstone_field`."""

    key: Annotated[str, Field(description=_KEY)]
    id: IdText
    fields: None


class TableRows(TypedDict):
    """Rows of a table, in byte order of their keys."""

    rows: list[Row]
    next_after_key: Annotated[
        str | None,
        Field(
            description="Pass it as `after_key`, with `as_of`, to get the next page; null: this "
            "is the last page."
        ),
    ]
    as_of: Annotated[
        IdText,
        Field(
            description="Last id of the stream when the rows had this state. Later entries change "
            "the rows."
        ),
    ]


class RowFields(FieldsInput):
    """Fields of a row. The gateway adds the key field."""

    model_config = ConfigDict(json_schema_extra=FIELDS_OR_PAIRS_OR_NONE)

    def _leaves_fields(self) -> bool:
        return not self.fields and not self.pairs


class RowWritten(TypedDict):
    """The entry that changed a row."""

    key: Annotated[str, Field(description=_KEY)]
    id: IdText
