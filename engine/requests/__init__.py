"""Requests: what may be asked of a backend, one value for each command, with nothing of the state.

`backend.perform(request)` returns the reply, whose type is the request's parameter. A request that
changes something happens as a whole or, when it raises, not at all. Each names what it raises;
every one that names a group raises `GroupNotFound` where that group must be there and is not.
"""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

T_co = TypeVar("T_co", covariant=True)


class Request(msgspec.Struct, Generic[T_co], frozen=True):
    """Something asked of a backend. `T_co` is the type of the reply."""
