"""Dismantling: what is large is freed piece by piece, by whoever has the time.

To free a million objects takes a fifth of a second, and the interpreter does it in one go when the
last reference goes.
"""

from __future__ import annotations

from collections.abc import Iterator

Pieces = Iterator[None]
"""Frees some objects at each step, and everything by the end."""


def free(pieces: Pieces) -> None:
    """Free everything at once."""
    for _ in pieces:
        pass
