"""Requests: everything that a backend can be asked to do, one value type for each command.

`backend.perform(request)` returns the reply. The type parameter of the request is the type of its
reply. A request that changes something happens as a whole; if it raises, nothing has changed. Each
request lists the errors that it raises. A request that names a group also raises `GroupNotFound` if
it needs that group and the group does not exist.

Requests contain no part of the engine's state.
"""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

T_co = TypeVar("T_co", covariant=True)


class Request(msgspec.Struct, Generic[T_co], frozen=True, tag=True, omit_defaults=True):
    """A command for a backend. `T_co` is the type of the reply.

    On the way to another process a request carries the name of its class as a tag, and only the
    fields that differ from their defaults.
    """
