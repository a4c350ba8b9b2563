"""LZF: the compression of strings in RDB (Marc Lehmann's LibLZF), reading only.

The input is a row of *runs* and *copies*. A byte below 32 is a run: so many bytes and one more
follow as they are. Any other byte is a copy: its upper three bits are the length less 2 (7: a byte
with the remainder follows), its lower five bits and the next byte say how far back in the output it
begins, less 1. A copy may reach into itself.
"""

from __future__ import annotations

EXPANSION_MAX = 88
"""No input grows more: three bytes copy at most 264."""


def decompress(packed: bytes, size_bytes: int) -> bytes:
    """Return the original bytes.

    Args:
        packed: the compressed bytes.
        size_bytes: the length of the result.

    Raises:
        ValueError: the bytes are no LZF of that length.
    """
    out, at, end = bytearray(), 0, len(packed)
    try:
        while at < end:
            lead = packed[at]
            at += 1
            if lead < 32:
                out += packed[at : at + lead + 1]
                at += lead + 1
                continue
            length = lead >> 5
            if length == 7:
                length += packed[at]
                at += 1
            distance = ((lead & 31) << 8 | packed[at]) + 1
            at += 1
            _copy(out, distance, length + 2)
            if len(out) > size_bytes:
                break
    except IndexError:
        raise ValueError("compressed bytes end early") from None
    if at != end or len(out) != size_bytes:
        raise ValueError("compressed bytes have another length than they say")
    return bytes(out)


def _copy(out: bytearray, distance: int, length: int) -> None:
    start = len(out) - distance
    if start < 0:
        raise ValueError("compressed bytes refer to what is before them")
    if distance >= length:
        out += out[start : start + length]
    else:  # what is copied repeats itself
        unit = bytes(out[start:])
        out += (unit * (length // distance + 1))[:length]
