"""Decisions: a request and the clock's reading in, the whole reply and the commands to record out.

A decision only looks (but for hiding from an index what is gone anyway). It checks everything
that could be wrong, raises a `StreamError` if it is, and otherwise knows the complete reply,
because the commands it returns change just what it has seen.
"""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

from engine.commands import Command

T = TypeVar("T")


class Decision(NamedTuple, Generic[T]):
    """A reply, and the commands that make it true; none if nothing changes."""

    reply: T
    commands: list[Command]
