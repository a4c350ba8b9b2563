"""Decisions: from a request and the time to the whole reply and the commands to record.

A decision does not change the state. It checks every precondition and raises a `StreamError` if one
fails. Otherwise it returns the complete reply, and commands that make exactly the change which the
reply describes.

A decision that would take too long is made in parts, with other requests in between. Each part is a
decision of its own. The reply of the last part is the reply to the request.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar, cast

from headgate.engine.commands import Command
from headgate.engine.entry import EntryId
from headgate.engine.requests import Request
from headgate.engine.state.keyspace import Keyspace

T = TypeVar("T")
U = TypeVar("U")
I = TypeVar("I")  # noqa: E741


class Unclaimable(NamedTuple):
    stream: bytes
    group: bytes
    ids: list[EntryId]


class Decision(NamedTuple, Generic[T]):
    """A reply, and the commands that make it true. Without commands nothing changes."""

    reply: T
    commands: list[Command]
    next_part: Callable[[Keyspace, int], Decision[T]] | None = (
        None  # decides the next part; None: this is the last
    )
    unclaimable: Sequence[Unclaimable] = ()  # met while searching; see `Keyspace.hide`
    look: Callable[[Keyspace, int], T] | None = None  # makes the reply from the new state

    @classmethod
    def then(cls, commands: list[Command], look: Callable[[Keyspace, int], U]) -> Decision[U]:
        return Decision(cast("U", None), commands, None, (), look)

    def replied_as(self, shape: Callable[[T], U]) -> Decision[U]:
        next_part = self.next_part
        if next_part is None:
            return Decision(shape(self.reply), self.commands, None, self.unclaimable)

        def reshaped(keyspace: Keyspace, now_ms: int) -> Decision[U]:
            return next_part(keyspace, now_ms).replied_as(shape)

        # Only the reply of the last part is used, so the others are not converted.
        return Decision(cast("U", self.reply), self.commands, reshaped, self.unclaimable)


Step = Callable[[Keyspace, int], Decision[T]]
"""Makes a decision, or a part of one, from the state and the time (unix ms)."""


Decisions = Mapping[type[Request[Any]], Callable[[Keyspace, Any, int], Decision[Any]]]
"""The function that decides about each kind of request."""


def in_parts(
    keyspace: Keyspace,
    now_ms: int,
    items: Sequence[I],
    size: int,
    decide: Callable[[Keyspace, Sequence[I], int], Decision[T]],
    join: Callable[[T, T], T] = operator.iadd,
) -> Decision[T]:
    """Decide about many items, `size` of them in each part; `join` merges the replies."""
    if len(items) <= size:
        return decide(keyspace, items, now_ms)
    return _part(items, size, decide, join, 0, (), keyspace, now_ms)


def _part(
    items: Sequence[I],
    size: int,
    decide: Callable[[Keyspace, Sequence[I], int], Decision[T]],
    join: Callable[[T, T], T],
    at: int,
    before: tuple[T, ...],
    keyspace: Keyspace,
    now_ms: int,
) -> Decision[T]:
    # A nested function that refers to itself would be a cycle for the garbage collector.
    decision = decide(keyspace, items[at : at + size], now_ms)
    reply = decision.reply
    for so_far in before:
        reply = join(so_far, reply)
    at += size
    if at >= len(items):
        return Decision(reply, decision.commands)
    next_part = partial(_part, items, size, decide, join, at, (reply,))
    return Decision(reply, decision.commands, next_part)
