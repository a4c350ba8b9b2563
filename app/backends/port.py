"""Backend: the one port between the web shell and what keeps the streams.

A backend performs requests (`engine.requests`). What every backend promises:

- **Atomic.** Each request happens as a whole or, when it raises, not at all. What settles, deletes
  or trims many entries may happen in parts with other requests in between; each part is whole.
- **Ordered.** The entries of a stream have one order, that of their ids, and every reader sees it.
- **Durable.** A request returns, or raises, when what it changed and what it saw cannot be lost any
  more: an error tells of the state as a reply does.
- **Fair.** Blocked readers are served in order of arrival; among the readers of a group the first
  to wait is the first served.
- **Cancellable.** A blocked read that is cancelled leaves nothing behind; entries that were handed
  to it in its last moment are given back.

What not every backend can is an *ability*: some requests, or a Protocol below, which a backend has
or has not. A request that needs an ability which is missing raises `NotSupported`.

Names and ids are the engine's types: stream, group and consumer names are bytes. Every error is an
`engine.errors.StreamError`; each request names those beyond `Unavailable`.

There is one method, and not one for each command: a request is a value, so a backend in another
process takes it as it is, a transaction is a list of them, and who may do what is decided by
looking at the request.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from enum import StrEnum
from typing import Protocol, TypeVar

from headgate.engine.errors import StreamError
from headgate.engine.replies import JournalStatus, Takeover
from headgate.engine.requests import Request

T = TypeVar("T")


class Ability(StrEnum):
    """What not every backend can."""

    BULK = "bulk"  # plan, split and commit: `requests.bulk`
    POLICIES = "policies"  # groups act by a policy: dead letters, delays, bounds
    CLAIM_FEED = "claim_feed"  # a consumer is told what others take over from it
    COMMANDS = "commands"  # Redis commands, in words
    JOURNAL = "journal"  # what it holds is on this machine's disk, and its journal can be looked at


class Backend(Protocol):
    """Streams, their groups, and what is delivered to whom."""

    @property
    def abilities(self) -> frozenset[Ability]:
        """Return what this backend can beyond the requests that every backend takes."""
        ...

    async def perform(self, request: Request[T]) -> T:
        """Carry out a request; returns its reply.

        Raises:
            StreamError: what the request says that it raises.
            NotSupported: it needs an ability that this backend has not.
            Unavailable: nothing can be changed now, or the reply is lost.
        """
        ...

    @property
    def claim_feed(self) -> ClaimFeed | None:
        """Return what tells of takeovers, if this backend can."""
        ...

    @property
    def commands(self) -> Commands | None:
        """Return what runs Redis commands, if this backend can."""
        ...

    @property
    def journal(self) -> Journaled | None:
        """Return the journal of this process, if there is one."""
        ...

    @property
    def failure(self) -> str | None:
        """Return why nothing can be changed any more, None if all is well.

        What was durable can still be read.
        """
        ...

    @property
    def refusal(self) -> str | None:
        """Return why not everything can be changed, for now or for ever, None if all is well."""
        ...

    def memory_bytes(self) -> Mapping[str, int]:
        """Return how much of this process's memory the streams take, by kind."""
        ...

    @property
    def waiter_count(self) -> int:
        """Return how many reads are blocked here."""
        ...

    @property
    def is_draining(self) -> bool:
        """Tell whether this backend is about to stop."""
        ...

    def drain(self) -> None:
        """Get ready to stop: blocked reads end with `Draining`, and no read blocks any more."""
        ...

    async def run(self) -> None:
        """Do what has to be done beside the requests, until `close`.

        Raises:
            Exception: something happened that nothing here can mend. The process has to end.
        """
        ...

    async def close(self) -> None:
        """Make durable what is not yet, and end `run`."""
        ...


class ClaimFeed(Protocol):
    """An ability: a consumer can be told what others take over from it."""

    def claims(
        self, stream: bytes, group: bytes, consumer: bytes
    ) -> AbstractAsyncContextManager[AsyncIterator[Takeover]]:
        """Tell what other consumers take over from one, while the context lasts.

        A takeover is told once it is durable. By then an entry may have come back, with a greater
        count. What one consumer has taken in several steps may be told as one takeover. Whoever
        does not take them in time loses the oldest ids of many thousands. The iteration ends with
        the context.
        """
        ...


class Status(str):
    """A simple string reply of a Redis command, such as OK."""

    __slots__ = ()


Reply = None | int | bytes | Status | Sequence["Reply"]
"""RESP2: null, integer, bulk string, simple string, array."""


class Commands(Protocol):
    """An ability: Redis commands, in words. What fails is a `StreamError`."""

    def may_wait(self, words: Sequence[bytes]) -> bool:
        """Tell whether a command may take long."""
        ...

    def only_reads(self, words: Sequence[bytes]) -> bool:
        """Tell whether a command changes nothing.

        Raises:
            StreamError: there is no such command.
        """
        ...

    async def run(self, words: Sequence[bytes]) -> Reply:
        """Run one command, waiting if it blocks.

        Raises:
            StreamError: it failed.
        """
        ...

    async def run_all(self, commands: Sequence[Sequence[bytes]]) -> list[Reply | StreamError]:
        """Run commands at one moment with nothing in between; none of them waits (MULTI, EXEC).

        A command that fails does not stop those behind it.

        Raises:
            StreamError: a command is unknown or has a wrong number of words; then none is run.
        """
        ...


class Journaled(Protocol):
    """An ability: a journal on this machine's disk."""

    @property
    def status(self) -> JournalStatus:
        """Return how the journal is."""
        ...

    def start_rewrite(self) -> bool:
        """Begin to replace history by a snapshot; false if one is being made already.

        Raises:
            Unavailable: the disk has failed, or is not written to.
        """
        ...
