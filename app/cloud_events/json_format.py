"""JSON format: reads an event in the structured mode, alone or in a batch.

An event is read without a model of its data: they stay the text that they are. What remains are
attributes, which have a bound, so that an event is read within some milliseconds, whatever is in
it.
"""

import msgspec

from headgate.app.cloud_events.attributes import (
    CONTENT_TYPE,
    INTEGER_MAX,
    NAME_LENGTH_MAX,
    OWN,
    VALUE_LENGTH_MAX,
    fault_in,
)
from headgate.app.cloud_events.data import FAULTS, data_of, data_of_base64
from headgate.app.cloud_events.event import Event
from headgate.app.wire.problems import GatewayError, pointer_to

EVENT_BYTES_MAX = 2**20
"""Longest event in JSON: its text is walked three times, and each may take 5 ms. The specification
asks for 64 KiB. Longer data come in the binary mode, which reads nothing of them."""

_ATTRIBUTES_BYTES_MAX = 64 * 1024
"""Longest text of all that is not the data: a dictionary of more would take long to make."""

_INTEGERS = range(-INTEGER_MAX - 1, INTEGER_MAX + 1)
_ESCAPED_MAX = 6
"""Bytes of a character of a JSON text, with an escape."""


class _DataMembers(msgspec.Struct):
    data: msgspec.Raw = msgspec.Raw()
    data_base64: msgspec.Raw = msgspec.Raw()


_data_members = msgspec.json.Decoder(_DataMembers).decode
_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_items = msgspec.json.Decoder(list[msgspec.Raw]).decode
_value = msgspec.json.Decoder().decode


def parse_event(content: bytes, pointer: str = "/body") -> Event:
    """Read an event in the structured mode.

    Args:
        content: a JSON text.
        pointer: where it stands, for errors.

    Raises:
        GatewayError: it is no event, or a longer one than is read here.
    """
    if len(content) > EVENT_BYTES_MAX:
        text = f"an event in JSON has {EVENT_BYTES_MAX} bytes at most: longer data as a binary one"
        raise GatewayError("too_large", text, pointer=pointer)
    members = _members_of(content, pointer)
    data, packed = members.pop("data", None), members.pop("data_base64", None)
    if packed == b"null":
        packed = None
    if data is not None and packed is not None:
        text = "an event has either `data` or `data_base64`"
        raise GatewayError("invalid_request", text, pointer=f"{pointer}/data_base64")
    attributes = {
        name: value
        for name, member in members.items()
        if name not in OWN and (value := _text_of(name, member, pointer)) is not None
    }
    content_type = attributes.pop(CONTENT_TYPE, None)
    fault = fault_in(attributes, content_type)
    if fault is not None:
        place = pointer if fault.name is None else pointer + pointer_to(fault.name)
        raise GatewayError("invalid_request", fault.text, pointer=place)
    if packed is not None:
        return Event(attributes, content_type, data_of_base64(packed, f"{pointer}/data_base64"))
    return Event(attributes, content_type, None if data is None else data_of(data, content_type))


def items_of(content: bytes) -> list[bytes]:
    """Return the items of a JSON array, each as its text.

    Raises:
        ValueError: it is no JSON array.
    """
    try:
        return list(map(bytes, _items(content)))
    except FAULTS as error:
        raise ValueError(str(error)) from None


def _members_of(content: bytes, pointer: str) -> dict[str, bytes]:
    """Return the members of an event, each as its JSON text.

    Raises:
        GatewayError: it is no object, or there is too much beside its data.
    """
    try:
        content.decode()
        if len(content) > _ATTRIBUTES_BYTES_MAX:
            parts = _data_members(content)
            beside = len(content) - len(bytes(parts.data)) - len(bytes(parts.data_base64))
            if beside > _ATTRIBUTES_BYTES_MAX:
                text = f"at most {_ATTRIBUTES_BYTES_MAX} bytes beside the data"
                raise GatewayError("too_large", text, pointer=pointer)
        return {name: bytes(member) for name, member in _members(content).items()}
    except msgspec.ValidationError:
        raise GatewayError("invalid_request", "should be an object", pointer=pointer) from None
    except FAULTS as error:
        raise GatewayError("malformed", f"not JSON: {error}", pointer=pointer) from None


def _text_of(name: str, member: bytes, pointer: str) -> str | None:
    """Return an attribute as text; None if it is not set.

    Raises:
        GatewayError: it has another type than attributes have.
    """
    text = f"an attribute is a text of {VALUE_LENGTH_MAX} characters, a 32-bit integer or a Boolean"
    if len(member) <= _ESCAPED_MAX * VALUE_LENGTH_MAX + 2 and member[:1] not in (b"{", b"["):
        try:
            value = _value(member)
        except msgspec.ValidationError:  # a number beyond all bounds
            value = 0.0
        if value is None or isinstance(value, str):
            return value
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, int) and value in _INTEGERS:
            return str(value)
    place = pointer + pointer_to(name[:NAME_LENGTH_MAX])
    raise GatewayError("invalid_request", text, pointer=place)
