"""Names of streams, groups and consumers as clients write them."""

import re

from headgate.app.wire.problems import GatewayError

_NAME_BYTES_MAX = 256
_REFUSED = re.compile(r"[\x00-\x1f\x7f-\x9f/\ufffd]")  # controls, and what stands for no UTF-8


def check_name(name: str, *, pointer: str) -> bytes:
    """Return the bytes of a stream, group or consumer name.

    Raises:
        GatewayError: it is empty, too long, or has a control character or `/` in it.
    """
    encoded = name.encode(errors="replace")
    if not 1 <= len(encoded) <= _NAME_BYTES_MAX:
        text = f"a name has 1 to {_NAME_BYTES_MAX} bytes of UTF-8, this one has {len(encoded)}"
        raise GatewayError("invalid_request", text, pointer=pointer)
    if _REFUSED.search(name):
        text = "a name has no control characters, no `/`, and is valid UTF-8"
        raise GatewayError("invalid_request", text, pointer=pointer)
    return encoded


def text_of(name: bytes) -> str:
    """Return a name as text; one that is not UTF-8 can only be shown."""
    return name.decode(errors="replace")
