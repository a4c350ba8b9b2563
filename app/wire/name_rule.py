"""The rule of names. It imports nothing of the gateway: the command line uses it, too."""

import re

NAME_BYTES_MAX = 256
NO_SLASH = "a name cannot contain `/`"
_REFUSED = re.compile(r"[\x00-\x1f\x7f-\x9f/\ud800-\udfff\ufffd]")
"""Controls, and what stands for bytes that are not UTF-8."""


def fault_of(name: str) -> str | None:
    """Return what is wrong with the name of a stream, group or consumer; None if it is valid."""
    size_bytes = len(name.encode(errors="replace"))
    if not 1 <= size_bytes <= NAME_BYTES_MAX:
        return f"a name must have 1 to {NAME_BYTES_MAX} bytes of UTF-8, not {size_bytes}"
    if _REFUSED.search(name):
        return f"{NO_SLASH} or control characters, and must be valid UTF-8"
    return None
