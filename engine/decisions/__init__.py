"""Decisions: a request and the clock's reading in, the whole reply and the commands to record out.

A decision only looks. It checks everything that could be wrong, raises a `StreamError` if it is,
and otherwise knows the complete reply: the commands it returns change just what it has seen.

A decision that would take too long is made in parts, with other requests in between: each part is
a decision of its own, and the reply of the last one is the reply.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Generic, NamedTuple, TypeVar, cast

from headgate.engine.commands import Command
from headgate.engine.entry import EntryId
from headgate.engine.state.keyspace import Keyspace

T = TypeVar("T")
U = TypeVar("U")
I = TypeVar("I")  # noqa: E741


class Unclaimable(NamedTuple):
    """Pending entries of a group that no read can claim: searches need not come by them again."""

    stream: bytes
    group: bytes
    ids: list[EntryId]


class Decision(NamedTuple, Generic[T]):
    """A reply, and the commands that make it true; none if nothing changes."""

    reply: T
    commands: list[Command]
    next_part: Callable[[Keyspace, int], Decision[T]] | None = (
        None  # what is left to do; None: nothing
    )
    unclaimable: Sequence[Unclaimable] = ()  # found on the way; see `Keyspace.hide`
    look: Callable[[Keyspace, int], T] | None = None  # tells the reply, once all is applied

    @classmethod
    def then(cls, commands: list[Command], look: Callable[[Keyspace, int], U]) -> Decision[U]:
        """Return a decision whose reply describes the state once the commands are applied."""
        return Decision(cast("U", None), commands, None, (), look)

    def replied_as(self, shape: Callable[[T], U]) -> Decision[U]:
        """Return the same decision with its reply in another shape."""
        next_part = self.next_part
        if next_part is None:
            return Decision(shape(self.reply), self.commands, None, self.unclaimable)

        def reshaped(keyspace: Keyspace, now_ms: int) -> Decision[U]:
            return next_part(keyspace, now_ms).replied_as(shape)

        # The reply of the last part is the reply: those of all others are not worth shaping.
        return Decision(cast("U", self.reply), self.commands, reshaped, self.unclaimable)


Step = Callable[[Keyspace, int], Decision[T]]
"""A part of a decision that waits for the state and the clock's reading (unix ms)."""


def in_parts(
    keyspace: Keyspace,
    now_ms: int,
    items: Sequence[I],
    size: int,
    decide: Callable[[Keyspace, Sequence[I], int], Decision[T]],
    join: Callable[[T, T], T] = operator.iadd,
) -> Decision[T]:
    """Decide about many items, some at a time.

    Args:
        keyspace: all streams.
        now_ms: unix time.
        items: ids, mostly.
        size: items in one part.
        decide: decides about some of them.
        join: adds the reply of a part to that of those before it.
    """
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
    # No function within a function: one that names itself would wait for the garbage collector.
    decision = decide(keyspace, items[at : at + size], now_ms)
    reply = decision.reply
    for so_far in before:
        reply = join(so_far, reply)
    at += size
    if at >= len(items):
        return Decision(reply, decision.commands)
    next_part = partial(_part, items, size, decide, join, at, (reply,))
    return Decision(reply, decision.commands, next_part)
