"""Globs: patterns for names with the syntax of Redis, byte by byte (`stringmatchlen`).

A pattern is compiled to a regular expression. For each star except the last, the expression takes
the first place where the text after the star matches, and never tries a later one, because the
first place is as good as any later one. So a match takes at most (bytes of the pattern) × (bytes of
the name) steps.

In a range with an end above 127, the result in Redis depends on whether `char` is signed on its
machine. Here bytes are always unsigned.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from headgate.engine.errors import Invalid

PATTERN_BYTES_MAX = 1024
"""Length of the longest pattern. Compiling so many stars takes 8 ms. Names rarely have a tenth of
it."""

_NOTHING = b"(?!)"
_ANYTHING = b"."
_STAR = b""


def matcher(pattern: bytes) -> Callable[[bytes], bool]:
    """Return a function that tells whether a name matches the pattern.

    Raises:
        Invalid: the pattern is too long.
    """
    if len(pattern) > PATTERN_BYTES_MAX:
        raise Invalid(f"pattern is longer than {PATTERN_BYTES_MAX} bytes")
    if pattern == b"*":
        return lambda name: True  # noqa: ARG005
    expression = re.compile(_expression(pattern), re.DOTALL)
    # Redis: only the empty pattern and a single star match the empty name.
    return lambda name: expression.fullmatch(name) is not None and (bool(name) or not pattern)


def literal_prefix(pattern: bytes) -> bytes:
    """Return the bytes with which all names begin that match the pattern."""
    prefix, at = b"", 0
    while at < len(pattern) and pattern[at : at + 1] not in {b"*", b"?", b"["}:
        at += pattern[at : at + 1] == b"\\" and at + 1 < len(pattern)
        prefix += pattern[at : at + 1]
        at += 1
    return prefix


def _expression(pattern: bytes) -> bytes:
    first, *others = _runs(pattern)
    if not others:
        return first
    *between, last = others
    runs_between = b"".join(b"(?>.*?%b)" % run for run in between if run)
    return b"%b%b.*%b" % (first, runs_between, last)


def _runs(pattern: bytes) -> list[bytes]:
    """Return the parts of a pattern before, between and after its stars."""
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
    """Read a class; `at` is the place after its opening bracket.

    Return it and the place after its end.

    A class without an end extends to the end of the pattern. A closing bracket ends the class even
    if it is the first member, but not if it is the end of a range or follows a backslash.
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
