"""The content of a stream by its content type, as entries and as an answer's body.

A message of a JSON stream is an entry: an object whose values are all texts gives its fields, and
anything else is in the one field `json` as it was sent. A body of any other stream is an entry with
the one field `data`. Entries that others append have a form here, too: their fields as an object,
and between bytes as a line of JSON.
"""

import asyncio
import re
from collections.abc import Sequence

import msgspec

from headgate.app.wire.fields import wire_fields
from headgate.app.wire.problems import GatewayError
from headgate.app.wire.structure import check_dense
from headgate.engine.entry import Draft, Entry, Fields
from headgate.engine.threads import this_turn

JSON = "application/json"
BYTES = "application/octet-stream"

JSON_FIELD = b"json"
DATA_FIELD = b"data"

JSON_BYTES_MAX = 4 * 2**20
"""Longest body of messages: reading more at once would take 20 ms."""

_FIELDS_MAX = 1_000
_FIELDS_BYTES_MAX = 2**18
"""An object with more members, or a longer one, is kept as it was sent."""

_TYPE = re.compile(r"[\w!#$&^.+-]{1,127}/[\w!#$&^.+-]{1,127}[ \t]*(;[\x20-\x7e]{0,200})?", re.ASCII)

_messages: msgspec.json.Decoder[list[msgspec.Raw]] = msgspec.json.Decoder(list[msgspec.Raw])
_message: msgspec.json.Decoder[msgspec.Raw] = msgspec.json.Decoder(msgspec.Raw)
_texts: msgspec.json.Decoder[dict[str, str]] = msgspec.json.Decoder(dict[str, str])
_encode = msgspec.json.Encoder().encode

_FAULTS = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)


def parse_type(text: str) -> str:
    """Return the content type of a request; raises GatewayError if it is invalid."""
    text = text.strip()
    if _TYPE.fullmatch(text) is None:
        fault = "should be a media type, such as application/json"
        raise GatewayError("malformed", fault, pointer="/header/Content-Type")
    return text


def media_type(content_type: str) -> str:
    """Return a content type without its parameters, in lower case."""
    return content_type.partition(";")[0].strip().lower()


def is_json(content_type: str) -> bool:
    return media_type(content_type) == JSON


def is_text(content_type: str) -> bool:
    """Tell whether events carry the content as it is; other bytes are sent as base64."""
    return is_json(content_type) or media_type(content_type).startswith("text/")


async def drafts_of(
    body: bytes, content_type: str, *, messages_max: int, is_new: bool = False
) -> list[Draft]:
    """Return the entries of a body; it may be empty only if it creates the stream."""
    if not body:
        return []
    if not is_json(content_type):
        return [Draft(None, (DATA_FIELD, body))]
    if len(body) > JSON_BYTES_MAX:
        raise GatewayError(
            "too_large", f"should have at most {JSON_BYTES_MAX} bytes of JSON", pointer="/body"
        )
    check_dense(body)
    try:
        body.decode()
        await asyncio.sleep(0)
        is_array = body.lstrip(b" \t\r\n").startswith(b"[")
        messages = _messages.decode(body) if is_array else [_message.decode(body)]
    except _FAULTS as error:
        raise GatewayError("malformed", f"not JSON: {error}", pointer="/body") from None
    if not messages and not is_new:
        raise GatewayError("malformed", "an empty array appends nothing", pointer="/body")
    if len(messages) > messages_max:
        text = f"should have at most {messages_max} messages, not {len(messages)}"
        raise GatewayError("too_large", text, pointer="/body")
    await asyncio.sleep(0)
    turn, drafts = this_turn(), list[Draft]()
    for message in messages:
        drafts.append(Draft(None, _fields_of(bytes(message))))
        await turn.pause()
    return drafts


def _fields_of(message: bytes) -> Fields:
    if len(message) <= _FIELDS_BYTES_MAX and message.lstrip(b" \t\r\n").startswith(b"{"):
        try:
            texts = _texts.decode(message)
        except _FAULTS:  # another value is in it
            texts = {}
        if 0 < len(texts) <= _FIELDS_MAX and texts.keys() != {"json"}:
            return tuple(part.encode() for pair in texts.items() for part in pair)
    return (JSON_FIELD, message.strip(b" \t\r\n"))


def message_of(flat: Fields) -> bytes:
    if len(flat) == 2 and flat[0] == JSON_FIELD:
        try:
            flat[1].decode()
            return bytes(_message.decode(flat[1]))
        except _FAULTS:  # somebody else has appended it
            pass
    return _encode(wire_fields(flat)["fields"])


def bytes_of(flat: Fields) -> bytes:
    if len(flat) == 2 and flat[0] == DATA_FIELD:
        return flat[1]
    return _encode(wire_fields(flat)["fields"]) + b"\n"


def whole_count(entries: Sequence[Entry], content_type: str) -> int:
    """Return the number of entries, from the first on, with whole characters.

    Writers of tokens split characters. In what is no text each byte is a character, and a message
    of JSON is whole.
    """
    if is_json(content_type) or not is_text(content_type):
        return len(entries)
    for whole in range(len(entries), max(len(entries) - _CONTINUED_MAX, 0) - 1, -1):
        end = b"".join([bytes_of(each.fields) for each in entries[:whole][-_CONTINUED_MAX:]])
        if not _SPLIT.search(end[-_CONTINUED_MAX:]):
            return whole
    return len(entries)


_CONTINUED_MAX = 3
"""A character of UTF-8 lacks so many bytes at most."""

_SPLIT = re.compile(rb"(?:[\xc2-\xf4]|[\xe0-\xef][\x80-\xbf]|[\xf0-\xf4][\x80-\xbf]{1,2})\Z")
"""Finds the beginning of a character that has no end."""


def body_of(entries: Sequence[Entry], content_type: str) -> bytes:
    if is_json(content_type):
        return b"[%b]" % b",".join([message_of(entry.fields) for entry in entries])
    return b"".join([bytes_of(entry.fields) for entry in entries])
