"""Binary mode: attributes as the headers of a message, data as its body."""

import re
from collections.abc import Iterable

from headgate.app.cloud_events.attributes import CONTENT_TYPE, OWN, fault_in
from headgate.app.cloud_events.event import Event
from headgate.app.wire.problems import GatewayError, pointer_to

_PREFIX = b"ce-"
_QUOTED = re.compile(rb'"((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(rb"\\(.)")
_PERCENT = re.compile(rb"%([0-9A-Fa-f]{2})")


def parse_message(headers: Iterable[tuple[bytes, bytes]], content: bytes) -> Event:
    """Read an event in the binary mode.

    Args:
        headers: of the message, their names in small letters.
        content: of the message.

    Raises:
        GatewayError: it is no event.
    """
    attributes, content_type = dict[str, str](), None
    for header, value in headers:
        if header == b"content-type":
            content_type = value.decode("latin-1")
        elif header.startswith(_PREFIX):
            name = header.removeprefix(_PREFIX).decode("latin-1")
            if name == CONTENT_TYPE:
                raise _wrong("ce-datacontenttype", "the header Content-Type says it")
            if name in attributes:
                raise _wrong(f"ce-{name}", "given twice")
            attributes[name] = _text_of(f"ce-{name}", value)
    for name in OWN & attributes.keys():
        del attributes[name]
    fault = fault_in(attributes, content_type)
    if fault is not None:
        if fault.name is None:
            raise GatewayError("invalid_request", fault.text, pointer="/header")
        is_type = fault.name == CONTENT_TYPE
        raise _wrong("Content-Type" if is_type else f"ce-{fault.name}", fault.text)
    return Event(attributes, content_type, content or None)


def _text_of(header: str, value: bytes) -> str:
    """Return the text of a header's value (the HTTP binding, 3.1.3.2).

    Raises:
        GatewayError: it is not UTF-8.
    """
    quoted = _QUOTED.fullmatch(value)
    if quoted is not None:
        value = _ESCAPE.sub(rb"\1", quoted[1])
    try:
        return _PERCENT.sub(lambda match: bytes((int(match[1], 16),)), value).decode()
    except UnicodeDecodeError:
        raise _wrong(header, "not UTF-8, percent-decoded") from None


def _wrong(header: str, text: str) -> GatewayError:
    return GatewayError("invalid_request", text, pointer=pointer_to("header", header))
