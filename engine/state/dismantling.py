"""Dismantling: a large value is freed in small steps, by whoever has the time.

Freeing a million objects takes a fifth of a second. When the last reference goes, the interpreter
frees them all in one go.
"""

from __future__ import annotations

from collections.abc import Iterator

Pieces = Iterator[None]
"""Frees some objects at each step, and everything by the end."""


def free(pieces: Pieces) -> None:
    for _ in pieces:
        pass
