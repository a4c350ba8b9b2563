"""What a worker and the engine's process say to each other.

Requests and replies are sent as they are. The name of its class identifies each kind of request and
message, so there is no table that could miss one. `version_of_messages` tells whether both sides
mean the same by them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache, reduce
from operator import or_
from typing import Any, Generic, NamedTuple, TypeVar, get_args

import msgspec

from headgate.app.backends.port import Holding
from headgate.engine import errors
from headgate.engine.entry import Draft, EntryId, PartialId
from headgate.engine.errors import Location
from headgate.engine.replies import JournalStatus, Takeover
from headgate.engine.requests import (
    Request,
    bulk,
    commits,
    deliveries,
    entries,
    groups,
    keyspace,
    schedules,
    streams,
    tables,
)

R = TypeVar("R")

MODULES = (bulk, commits, deliveries, entries, groups, keyspace, schedules, streams, tables)
"""Modules of requests."""

REQUESTS: tuple[type[Request[Any]], ...] = tuple(
    sorted(
        (
            kind
            for kind in Request.__subclasses__()
            if kind.__module__.startswith(Request.__module__)
        ),
        key=lambda kind: kind.__name__,  # whatever was imported first
    )
)
"""All kinds of requests."""

REPLY_TYPES: Mapping[type[Request[Any]], Any] = {
    kind: get_args(vars(kind)["__orig_bases__"][0])[0] for kind in REQUESTS
}
"""The type of the reply to each kind of request: the parameter of its base class."""

ERRORS: Mapping[str, type[errors.StreamError]] = {
    kind.__name__: kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, errors.StreamError)
}
"""All errors of the engine, by name."""

AnyRequest = reduce(or_, REQUESTS)

Fact = EntryId | PartialId | bool | int | str | None
"""Types of an error's attributes, besides its location and names."""


class Message(msgspec.Struct, frozen=True, array_like=True, tag=True):
    pass


class ErrorFacts(NamedTuple):
    kind: str
    texts: tuple[str, ...]  # the arguments of an exception
    location: Location
    facts: dict[str, Fact]
    names: dict[str, bytes]  # the facts that are bytes: a decoder cannot tell them from text
    held: list[errors.EntryHolder] = []  # noqa: RUF012 it is never changed
    faults: list[errors.FieldFault] = []  # noqa: RUF012 it is never changed


class EngineState(NamedTuple):
    """The state of the engine, which it sends without a request."""

    refusal: str | None = None
    failure: str | None = None
    is_draining: bool = False
    unsaved_count: int = 0
    memory_bytes: dict[str, int] = {}  # noqa: RUF012 it is never changed
    journal: JournalStatus | None = None


# What a worker says


class Hello(Message, frozen=True):
    version: str
    name: str  # of the worker, for the log
    holdings: list[Holding]  # what its connections read as, each as often as it is held


class Call(Message, frozen=True):
    """Perform a request; an `Answer`, `Failed` or `Cancelled` with this number follows."""

    number: int
    request: AnyRequest  # type: ignore[valid-type]
    portion_count: int = 0  # of its entries, which came before it


class DraftPortion(Message, frozen=True):
    """Some of the entries of the call that follows under this number."""

    number: int
    stream: bytes
    drafts: list[Draft]


class Transaction(Message, frozen=True):
    """Perform requests with nothing in between; the answer is a list of `PerformedRequest`."""

    number: int
    requests: list[AnyRequest]  # type: ignore[valid-type]


class Cancel(Message, frozen=True):
    """Nobody waits for the answer to a call any more."""

    number: int


class Hold(Message, frozen=True):
    """A connection reads as a consumer from now on; an answer comes."""

    number: int
    holding: Holding


class Unhold(Message, frozen=True):
    """Such a connection has ended and released what it held; an answer comes."""

    number: int
    holding: Holding


class Follow(Message, frozen=True):
    """Report takeovers from a consumer, as `Taken`, until `Unfollow`."""

    number: int
    stream: bytes
    group: bytes
    consumer: bytes


class Unfollow(Message, frozen=True):
    number: int


class Rewrite(Message, frozen=True):
    """Start to replace the journal's history by a snapshot; the answer is a `Rewriting`."""

    number: int


# What the engine says


class Welcome(Message, frozen=True):
    abilities: list[str]
    durable: str
    state: EngineState


class TurnedAway(Message, frozen=True):
    """The other answer to `Hello`: the connection ends."""

    why: str


class Answer(Message, Generic[R], frozen=True):
    number: int
    reply: R


class Failed(Message, frozen=True):
    number: int
    error: ErrorFacts


class Cancelled(Message, frozen=True):
    """A call was cancelled, and has done nothing since; no `Answer` follows."""

    number: int


class Taken(Message, frozen=True):
    """Something was taken over from a consumer that is followed."""

    number: int
    takeover: Takeover


class Changed(Message, frozen=True):
    state: EngineState


class PerformedRequest(NamedTuple, Generic[R]):
    reply: R  # None if it failed
    error: ErrorFacts | None


class Rewriting(NamedTuple):
    """Whether a rewrite was started (or was already running), and the journal's status."""

    is_started: bool
    state: EngineState


OfWorker = (
    Hello | Call | DraftPortion | Transaction | Cancel | Hold | Unhold | Follow | Unfollow | Rewrite
)
OfEngine = Welcome | TurnedAway | Answer[msgspec.Raw] | Failed | Cancelled | Taken | Changed


@cache
def version_of_messages() -> str:
    """Return a digest of all message types; it must be equal on both sides."""
    described = msgspec.inspect.multi_type_info([OfWorker, OfEngine, *REPLY_TYPES.values()])
    values = [sorted(ERRORS), [str(each) for each in REPLY_TYPES.values()], described]
    return hashlib.blake2b(repr(values).encode(), digest_size=8).hexdigest()


def facts_of(error: errors.StreamError) -> ErrorFacts:
    facts = dict(vars(error))
    location = facts.pop("location", error.location)
    held, faults = facts.pop("held", []), facts.pop("faults", [])
    names = {name: value for name, value in facts.items() if isinstance(value, bytes)}
    others = {name: value for name, value in facts.items() if name not in names}
    kind = next(kind.__name__ for kind in type(error).__mro__ if kind.__name__ in ERRORS)
    return ErrorFacts(kind, tuple(map(str, error.args)), location, others, names, held, faults)


def error_of(taken_apart: ErrorFacts) -> errors.StreamError:
    kind = ERRORS[taken_apart.kind]
    error = kind.__new__(kind, *taken_apart.texts)
    vars(error).update(taken_apart.facts | taken_apart.names)
    if taken_apart.held:
        vars(error)["held"] = taken_apart.held
    if taken_apart.faults:
        vars(error)["faults"] = taken_apart.faults
    if taken_apart.location != kind.location:
        error.location = taken_apart.location
    return error
