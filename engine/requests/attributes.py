"""Attributes: small values with names beside a stream, for what is layered over streams.

They change together with an append, a close, or the creation of the stream, or by themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from headgate.engine.requests import Request


class AttributeChange(NamedTuple):
    """A change of attributes; None stands for an attribute that is not there."""

    values: Mapping[bytes, bytes | None]
    expected: Mapping[bytes, bytes | None] = {}


class GetAttributes(Request[dict[bytes, bytes]], frozen=True):
    """Return those of the attributes that the stream has.

    Raises:
        StreamNotFound: the stream does not exist.
    """

    stream: bytes
    names: Sequence[bytes] | None = None  # None: all


class ChangeAttributes(Request[None], frozen=True):
    """Change attributes of a stream, if others are as expected.

    Raises:
        StreamNotFound: the stream does not exist.
        StreamsChanged: an attribute is not as expected.
        LimitReached: the stream would have too many, or too large ones.
    """

    stream: bytes
    change: AttributeChange
