"""Globs: patterns of names as Redis reads them, byte by byte (`stringmatchlen`).

A pattern becomes a regular expression that never goes back to where a star before the last one has
ended: the first place where what follows a star fits is as good as any later one. So a match takes
at most as many steps as the pattern has bytes times the name has.

Where a range of a class has an end above 127, Redis does what the signs of the machine's `char`
make of it; here bytes have no sign.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from headgate.app.redis_syntax.words import CommandError

PATTERN_BYTES_MAX = 1024
"""Longest pattern. To compile so many stars takes 8 ms; names are rarely a tenth as long."""

_NOTHING = b"(?!)"
_ANYTHING = b"."
_STAR = b""


def matcher(pattern: bytes) -> Callable[[bytes], bool]:
    """Return a test for names.

    Raises:
        CommandError: the pattern is too long.
    """
    if len(pattern) > PATTERN_BYTES_MAX:
        raise CommandError(f"ERR pattern is longer than {PATTERN_BYTES_MAX} bytes")
    if pattern == b"*":
        return lambda name: True  # noqa: ARG005
    expression = re.compile(_expression(pattern), re.DOTALL)
    # Redis: no pattern but the empty one and a lone star fits the empty name.
    return lambda name: expression.fullmatch(name) is not None and (bool(name) or not pattern)


def _expression(pattern: bytes) -> bytes:
    first, *others = _runs(pattern)
    if not others:
        return first
    *between, last = others
    runs_between = b"".join(b"(?>.*?%b)" % run for run in between if run)
    return b"%b%b.*%b" % (first, runs_between, last)


def _runs(pattern: bytes) -> list[bytes]:
    """Return what stands before, between and behind the stars."""
    runs = [b""]
    for part in _parts(pattern):
        if part == _STAR:
            runs.append(b"")
        else:
            runs[-1] += part
    return runs


def _parts(pattern: bytes) -> Iterator[bytes]:
    """Yield each part of a pattern as a regular expression for one byte, or `_STAR`."""
    at = 0
    while at < len(pattern):
        byte = pattern[at : at + 1]
        at += 1
        if byte == b"*":
            yield _STAR
        elif byte == b"?":
            yield _ANYTHING
        elif byte == b"[":
            part, at = _class(pattern, at)
            yield part
        else:
            if byte == b"\\" and at < len(pattern):
                byte = pattern[at : at + 1]
                at += 1
            yield re.escape(byte)


def _class(pattern: bytes, at: int) -> tuple[bytes, int]:
    """Read a class from behind its bracket; returns it, and the place behind its end.

    One without an end goes to the end of the pattern. A bracket ends it wherever it stands, also
    as the first member, but not as the end of a range or behind a backslash.
    """
    is_negated = pattern.startswith(b"^", at)
    at += is_negated
    members: list[bytes] = []
    while at < len(pattern) and pattern[at : at + 1] != b"]":
        left = len(pattern) - at
        if pattern[at : at + 1] == b"\\" and left >= 2:
            members.append(re.escape(pattern[at + 1 : at + 2]))
            at += 2
        elif left >= 3 and pattern[at + 1 : at + 2] == b"-":
            low, high = sorted((pattern[at : at + 1], pattern[at + 2 : at + 3]))
            members.append(b"%b-%b" % (re.escape(low), re.escape(high)))
            at += 3
        else:
            members.append(re.escape(pattern[at : at + 1]))
            at += 1
    at += 1
    if not members:
        return _ANYTHING if is_negated else _NOTHING, at
    return b"[%b%b]" % (b"^" if is_negated else b"", b"".join(members)), at
