"""Names of streams, groups and consumers as clients write them."""

from typing import Annotated

from pydantic import WithJsonSchema

from headgate.app.wire.name_rule import NAME_BYTES_MAX, fault_of
from headgate.app.wire.problems import GatewayError
from headgate.engine.limits import PATTERN_BYTES_MAX

NameText = Annotated[
    str,
    WithJsonSchema(
        {
            "type": "string",
            "minLength": 1,
            "maxLength": NAME_BYTES_MAX,
            "pattern": r"^[^\u0000-\u001f\u007f-\u009f/\ufffd]+$",
        }
    ),
]
"""A name in a request. The document has the rule; `check_name` checks it."""

PatternText = Annotated[
    str, WithJsonSchema({"type": "string", "minLength": 1, "maxLength": PATTERN_BYTES_MAX})
]


def check_name(name: str, *, pointer: str) -> bytes:
    fault = fault_of(name)
    if fault is not None:
        raise GatewayError("invalid_request", fault, pointer=pointer)
    return name.encode()


def check_pattern(pattern: str, *, pointer: str) -> bytes:
    text = pattern.encode(errors="surrogatepass")
    if not 0 < len(text) <= PATTERN_BYTES_MAX:
        fault = f"a pattern must have 1 to {PATTERN_BYTES_MAX} bytes"
        raise GatewayError("invalid_request", fault, pointer=pointer)
    return text


def text_of(name: bytes) -> str:
    """Return a name as text for display; what is not UTF-8 is lost."""
    return name.decode(errors="replace")
