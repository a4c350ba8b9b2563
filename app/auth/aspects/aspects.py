"""Aspects: the treatment of a kind of request beside what it does, and the rules for its needs."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from headgate.app.auth.grants import Verb
from headgate.app.auth.principal import ADMIN, Need
from headgate.engine.requests import Request
from headgate.engine.requests.names import is_reserved

Rule = Callable[[Any], Collection[Need]]
"""Returns the needs of a request. A need may name several verbs: one is enough. All must be met."""

READ = (Verb.READ,)
SEE_GROUP = (Verb.READ, Verb.CONSUME, Verb.MANAGE)
SEE_STREAM = (Verb.READ, Verb.APPEND, Verb.CONSUME, Verb.MANAGE, Verb.PUSH)
DESCRIBE = (Verb.READ, Verb.MANAGE)
POLICY_TARGET = (Verb.APPEND, Verb.MANAGE)
"""One of them is needed on a stream to which a policy writes."""


class MessagingOperation(NamedTuple):
    """An operation in a span, as OpenTelemetry's conventions for messaging name it."""

    name: str
    type: Literal["send", "receive", "settle"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Aspects:
    """The aspects of a kind of request."""

    needs: Rule
    is_act: bool = False
    """It manages something. The audit log has those."""
    appended: Callable[[Any], int] | None = None
    """Returns the number of entries that a request appends."""
    delivered: Callable[[Any], int] | None = None
    """Returns the number of entries in a reply."""
    span: MessagingOperation | None = None
    """Descriptions and lists have none: operators ask for them, they are no part of a flow."""


Table = dict[type[Request[Any]], Aspects]


def on_nothing(_: Request[Any]) -> Collection[Need]:
    """Return the needs of a request that everybody may make."""
    return ()


def on_stream(*verbs: Verb) -> Rule:
    """Return the rule of requests about one stream."""

    def rule(request: Any) -> Collection[Need]:
        return (Need(verbs, request.stream),)

    return rule


def on_streams(*verbs: Verb, is_shared: bool = False) -> Rule:
    """Return the rule of requests about several streams; some may be about all, and need nothing.

    Args:
        verbs: needed on each of them.
        is_shared: the answer is the same for whoever may do any of that.
    """

    def rule(request: Any) -> Collection[Need]:
        return [Need(verbs, stream, is_shared=is_shared) for stream in request.streams or ()]

    return rule


def on_deleted(request: Any) -> Collection[Need]:
    """Return the needs of a deletion of streams: an operator may delete the gateway's own."""
    names = (request.stream,) if hasattr(request, "stream") else request.streams
    return [ADMIN if is_reserved(name) else Need((Verb.MANAGE,), name) for name in names]


def on_cursors(request: Any) -> Collection[Need]:
    """Return the needs of a read of several streams."""
    return [Need(READ, cursor.stream) for cursor in request.cursors]


def on_all(*verbs: Verb) -> Rule:
    """Return the rule of requests about all streams."""
    needs = (Need(verbs),)
    return lambda _: needs


def on_group(*verbs: Verb) -> Rule:
    """Return the rule of requests about a group as a whole."""

    def rule(request: Any) -> Collection[Need]:
        return (Need(verbs, request.stream, request.group),)

    return rule


def on_consumer(*verbs: Verb) -> Rule:
    """Return the rule of requests about a consumer; one without a name is about all of them."""

    def rule(request: Any) -> Collection[Need]:
        return (Need(verbs, request.stream, request.group, request.consumer),)

    return rule


def on_both(request: Any) -> Collection[Need]:
    """Return the needs of a stream that gets another name: there it can be read."""
    names = request.stream, request.to
    return *(Need((Verb.MANAGE,), name) for name in names), Need(READ, request.stream)


def policy_needs(stream: bytes, targets: Iterable[bytes]) -> Collection[Need]:
    """Return the needs of a stream whose policies write to others: they read it as well."""
    others = [target for target in targets if target != stream]
    if not others:
        return ()
    return Need(READ, stream), *(Need(POLICY_TARGET, target) for target in others)
