"""The backend as one principal may use it; all requests of clients pass here.

1. The rights are checked by the value of the request, before anything is looked up.
2. The request is narrowed: a list to the names that may be read, an append to streams that exist
   unless the principal may create them.
3. The backend performs it, within the limits of use of the principal.

Acts of management and denials are written to the audit log.
"""

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager, ExitStack, nullcontext
from copy import copy
from typing import Any, Self, TypeVar

from msgspec.structs import replace

from headgate.app.auth import metering
from headgate.app.auth.aspects import DESCRIBE, POLICY_TARGET, aspects_of, policy_needs
from headgate.app.auth.audit import Audit
from headgate.app.auth.grants import Verb
from headgate.app.auth.principal import ADMIN, Forbidden, Need, Principal, Unauthenticated
from headgate.app.auth.usage import UNLIMITED, Usage
from headgate.app.backends.port import Backend, ClaimFeed
from headgate.app.wire.name_rule import NAME_BYTES_MAX
from headgate.app.wire.problems import GatewayError
from headgate.engine.errors import OutOfReach, StreamError, StreamNotFound
from headgate.engine.requests import Request
from headgate.engine.requests.bulk import CommitBatch
from headgate.engine.requests.commits import CommitSteps
from headgate.engine.requests.deliveries import ReadGroups
from headgate.engine.requests.entries import Add, ReadPattern
from headgate.engine.requests.groups import CreateGroup, UpdateGroup
from headgate.engine.requests.idempotency import owned, owner_prefix
from headgate.engine.requests.keyspace import (
    RESERVED,
    UNRESERVED,
    CopyStream,
    CountStreams,
    ListNames,
    NameFilter,
    PickName,
    RememberKey,
    RenameStream,
    ScanNames,
)
from headgate.engine.requests.schedules import (
    DeleteSchedule,
    GetSchedule,
    ListSchedules,
    SetSchedule,
)
from headgate.engine.requests.streams import CloseStream, ListStreams
from headgate.engine.requests.tables import DeleteRow, PutRow
from headgate.engine.threads import this_turn

T = TypeVar("T")
PolicyRequest = TypeVar("PolicyRequest", CreateGroup, UpdateGroup)
Move = TypeVar("Move", RenameStream, CopyStream)
Repeatable = TypeVar("Repeatable", Add, CloseStream, CommitSteps, PutRow, DeleteRow)
SeenRequest = TypeVar("SeenRequest", GetSchedule, ListSchedules)
ManagedRequest = TypeVar("ManagedRequest", SetSchedule, DeleteSchedule)
ListRequest = TypeVar(
    "ListRequest", ListStreams, ListNames, ScanNames, CountStreams, PickName, ReadPattern
)

_CREATE = "manage on the stream to be created, or append by a grant with `create`"


class Access:
    __slots__ = ("audit", "backend", "is_slowed", "principal", "usage")

    def __init__(
        self, backend: Backend, principal: Principal, audit: Audit, usage: Usage = UNLIMITED
    ) -> None:
        """Take an unguarded backend; whatever ends a connection uses it without any rights."""
        self.backend = backend
        self.principal = principal
        self.audit = audit
        self.usage = usage
        self.is_slowed = False

    def slowed(self) -> Self:
        """Return an access for a connection that stays open: it waits where others are refused."""
        access = copy(self)
        access.is_slowed = True
        return access

    def become(self, other: "Access") -> None:
        self.principal = other.principal
        self.usage = other.usage

    @property
    def claim_feed(self) -> ClaimFeed | None:
        """Return the feed of takeovers, or None; whoever may read as a consumer may follow it."""
        return self.backend.claim_feed

    @property
    def name(self) -> str:
        return "default" if self.principal.is_anonymous else self.principal.id

    @property
    def maker(self) -> str | None:
        """Return the principal whose share new things count toward; None for an operator."""
        return None if self.principal.may(ADMIN) else self.principal.id

    @property
    def is_limited(self) -> bool:
        return self.usage.is_limited

    def check(self, verbs: AbstractSet[Verb]) -> None:
        """Check that the principal has one of these verbs on any stream; no verbs accept any."""
        try:
            self.principal.check_any(verbs)
        except (Forbidden, Unauthenticated) as error:
            self.audit.denial(error, self.principal, None)
            raise

    def require(self, needs: Iterable[Need]) -> None:
        self._check(needs, None)

    async def require_each(self, verb: Verb, names: Iterable[bytes]) -> None:
        """Require a verb on each of the names, which may be so many that others have turns."""
        turn = this_turn()
        for name in names:
            self.require((Need((verb,), name),))
            await turn.pause()

    def perform(self, request: Request[T]) -> Coroutine[Any, Any, T]:
        """Carry out a request.

        Raises Forbidden if the principal may not do this (nothing was looked up), and
        Unauthenticated if nobody has said who asks or the credential has ended.
        """
        principal = self.principal
        is_plain = (  # nothing speaks against most appends, and there are many
            type(request) is Add
            and request.stream in principal.appendable
            and request.is_plain
            and principal.ending is None
            and not self.usage.is_limited
        )
        if is_plain:
            return self.backend.perform(request)
        admitted = self.admit(request)
        if admitted is request and not self.usage.is_limited and not self._is_act(request):
            return self.backend.perform(request)
        return self._perform(request, admitted)

    async def perform_in_order(self, requests: Sequence[Request[Any]]) -> list[Any | Exception]:
        """Carry out requests one after the other, as `Backend.perform_in_order` does.

        Requests that are audited or limited are performed by themselves. So is one that is refused,
        and then its error takes the place of its reply.
        """
        if self._is_alone(requests[0]):
            try:
                return [await self.perform(requests[0])]
            except (StreamError, GatewayError) as error:
                return [error.with_traceback(None)]
        admitted: list[Request[Any]] = []
        for request in requests:
            if self._is_alone(request):
                break
            try:
                admitted.append(self.admit(request))
            except GatewayError as error:
                if not admitted:
                    return [error.with_traceback(None)]
                break
        outcomes: list[Any] = await self.backend.perform_in_order(admitted)
        for at, outcome in enumerate(outcomes):
            if isinstance(outcome, _REFUSALS):
                outcomes[at] = self.refusal(requests[at], admitted[at], outcome) or outcome
        return outcomes

    def _is_alone(self, request: Request[Any]) -> bool:
        return self.usage.is_limited or self._is_act(request)

    def admit(self, request: Request[T]) -> Request[T]:
        principal = self.principal
        needs = aspects_of(request).needs(request)
        if not principal.may_all(needs):
            self._check(needs, request)
        narrow = _NARROW.get(type(request))
        return request if narrow is None else narrow(request, principal)

    def charge(self, requests: Sequence[Request[Any]]) -> None:
        """Charge requests that somebody else performs at one moment; raises RateLimited."""
        if self.usage.is_rated:
            metering.charge(requests, self.usage)

    def settle(self, requests: Sequence[Request[Any]], outcomes: Sequence[Any]) -> None:
        """Adjust the charge and the audit log to the outcomes of such requests."""
        for request, outcome in zip(requests, outcomes, strict=True):
            for act in self._acts(request):
                self.audit.note(self.principal, act, outcome)
            if self.usage.is_rated and not isinstance(outcome, StreamError):
                metering.settle(request, outcome, self.usage)

    async def perform_owned(self, request: Request[T]) -> T:
        """Carry out a request on one of the gateway's own streams; the caller checks the rights."""
        with self.act(request):
            return await self.backend.perform(request)

    def act(
        self, what: Request[Any] | str, names: Mapping[str, str] | None = None
    ) -> AbstractContextManager[None]:
        """Audit an act when the context ends; `what` is a request or an operation's name."""
        if self.principal.is_home:
            return nullcontext()
        return self.audit.act(self.principal, what, names or {})

    def refusal(
        self, request: Request[T], admitted: Request[T], error: StreamError
    ) -> Forbidden | None:
        """Return the refusal behind an error, or None if the error may be shown.

        The request would have created a stream, or taken along policies that reach too far.
        """
        if isinstance(error, OutOfReach) and isinstance(request, RenameStream | CopyStream):
            needs = policy_needs(request.to, [error.stream])
            refusal = Forbidden(next(need for need in needs if not self.principal.may(need)))
        elif isinstance(error, StreamNotFound) and (
            error.stream in _created_by(request) - _created_by(admitted)
            or _is_target(request, error.stream)
        ):
            refusal = Forbidden(_CREATE)
        else:
            return None
        if not self._is_act(request):  # or else there is a line already
            self.audit.denial(refusal, self.principal, request)
        return refusal

    def own_producer(self, producer: bytes) -> bytes:
        """Return the name under which this principal's appends for a producer are remembered.

        A known append appends nothing, so no principal can use up the names of another one.
        """
        principal = self.principal
        return producer if principal.is_home else owned(producer, principal.id.encode())

    def own_writer(self, writer: bytes) -> bytes:
        """Return the name under which a writer of this principal is remembered.

        A batch of a writer is committed once, so a principal must not commit in the name of another
        one's writer, whose batches would be taken for repeats.
        """
        principal = self.principal
        if principal.may(_APPEND_EVERYWHERE):
            return writer
        return b"%b/%b" % (principal.id.encode(), writer)  # a name itself has no slash

    def _check(self, needs: Iterable[Need], request: Request[Any] | None) -> None:
        principal, need = self.principal, None
        try:
            principal.check_valid()
            for need in needs:
                principal.check(need)
        except (Forbidden, Unauthenticated) as error:
            # A commit has no names of its own.
            what = need if isinstance(request, CommitSteps) else request or need
            self.audit.denial(error, principal, what)
            raise

    def _is_act(self, request: Request[Any]) -> bool:
        return bool(self._acts(request))

    def _acts(self, request: Request[Any]) -> Sequence[Request[Any]]:
        """Return what of a request the audit log has: the request, or steps of a commit."""
        if self.principal.is_home:
            return ()
        if isinstance(request, CommitSteps):
            return [step for step in request.steps if aspects_of(step).is_act]
        return (request,) if aspects_of(request).is_act else ()

    async def _perform(self, request: Request[T], admitted: Request[T]) -> T:
        with ExitStack() as audited:
            for act in self._acts(request):
                audited.enter_context(self.audit.act(self.principal, act))
            return await self._within_limits(request, admitted)

    async def _within_limits(self, request: Request[T], admitted: Request[T]) -> T:
        try:
            if not self.usage.is_limited:
                return await self.backend.perform(admitted)
            perform = metering.slowly_performed if self.is_slowed else metering.performed
            return await perform(admitted, self.backend.perform, self.usage)
        except _REFUSALS as error:
            refusal = self.refusal(request, admitted, error)
            if refusal is not None:
                raise refusal from None
            raise


_REFUSALS = StreamNotFound, OutOfReach

_APPENDABLE_MAX = 1_000
"""Streams to which a principal is known to append."""


def _created_by(request: Request[Any]) -> frozenset[bytes]:
    """Return the streams that a request creates if they are not there."""
    match request:
        case Add(create_stream=True) | CreateGroup(create_stream=True):
            return frozenset((request.stream,))
        case CommitBatch(create_streams=True):
            return frozenset(request.drafts)
        case CommitSteps():
            return frozenset().union(*map(_created_by, request.steps))
    return frozenset()


def _is_target(request: Request[Any], stream: bytes) -> bool:
    return isinstance(request, CreateGroup | UpdateGroup) and stream != request.stream


_APPEND_EVERYWHERE = Need((Verb.APPEND,))


def _own_producer(producer: bytes, principal: Principal) -> bytes:
    if principal.may(_APPEND_EVERYWHERE) and not owner_prefix(producer):
        return producer
    return owned(producer, principal.id.encode())


def _narrow_key(request: RememberKey, principal: Principal) -> RememberKey:
    return replace(request, producer=_own_producer(request.producer, principal))


def _narrow_add(request: Add, principal: Principal) -> Add:
    request = _narrow_repeatable(request, principal)
    if request.create_stream and not principal.may_create(request.stream):
        return replace(request, create_stream=False)
    if request.create_stream and len(request.stream) <= NAME_BYTES_MAX:
        if len(principal.appendable) >= _APPENDABLE_MAX:
            principal.appendable.clear()
        principal.appendable.add(request.stream)
    return request


def _narrow_repeatable(request: Repeatable, principal: Principal) -> Repeatable:
    if request.idempotent is None:
        return request
    producer = _own_producer(request.idempotent.producer, principal)
    return replace(request, idempotent=request.idempotent._replace(producer=producer))


def _narrow_commit(request: CommitBatch, principal: Principal) -> CommitBatch:
    if request.create_streams and not all(map(principal.may_create, request.drafts)):
        return replace(request, create_streams=False)
    return request


def _narrow_steps(request: CommitSteps, principal: Principal) -> CommitSteps:
    steps = [
        step if (narrow := _NARROW.get(type(step))) is None else narrow(step, principal)
        for step in request.steps
    ]
    if any(step is not before for step, before in zip(steps, request.steps, strict=True)):
        request = replace(request, steps=steps)
    return _narrow_repeatable(request, principal)


def _narrow_group(request: CreateGroup, principal: Principal) -> CreateGroup:
    if request.create_stream and not principal.may(Need((Verb.MANAGE,), request.stream)):
        request = replace(request, create_stream=False)
    return _narrow_policy(request, principal)


def _narrow_policy(request: PolicyRequest, principal: Principal) -> PolicyRequest:
    if all(map(principal.may_create, request.targets)):
        return request
    return replace(request, targets_exist=True)


def _narrow_move(request: Move, principal: Principal) -> Move:
    if not principal.may(Need((Verb.READ,), request.to)):
        return replace(request, reach=NameFilter())
    reach = principal.reach(POLICY_TARGET)
    return request if reach is None else replace(request, reach=reach)


def _narrow_list(request: ListRequest, principal: Principal) -> ListRequest:
    return replace(request, only=principal.reach((Verb.READ,)) or UNRESERVED)


def _narrow_groups(request: ReadGroups, principal: Principal) -> ReadGroups:
    names = request.group, request.consumer
    only, create = principal.reach((Verb.CONSUME,), *names) or UNRESERVED, request.create
    if create is not None:
        made = principal.reach((Verb.MANAGE,), request.group) or UNRESERVED
        if create.targets:  # they are sent what it reads
            made = made.within(principal.reach((Verb.READ,)))
        targets_exist = not all(map(principal.may_create, create.targets))
        create = create._replace(only=made, targets_exist=targets_exist)
    return replace(request, only=only, create=create)


def _narrow_streams(request: ListStreams, principal: Principal) -> ListStreams:
    if request.only is not None or not principal.may(Need((Verb.READ,), RESERVED)):
        return _narrow_list(request, principal)
    shown = principal.reach((Verb.READ,))
    if shown is not None:
        shown = NameFilter(shown.names, (*shown.prefixes, RESERVED))
    return replace(request, only=shown)


def _narrow_seen(request: SeenRequest, principal: Principal) -> SeenRequest:
    shown = principal.reach(DESCRIBE)
    return request if shown is None else replace(request, only=shown)


def _narrow_managed(request: ManagedRequest, principal: Principal) -> ManagedRequest:
    managed = principal.reach((Verb.MANAGE,))
    return request if managed is None else replace(request, only=managed)


_NARROW: dict[type[Request[Any]], Callable[[Any, Principal], Any]] = {
    Add: _narrow_add,
    CloseStream: _narrow_repeatable,
    PutRow: _narrow_repeatable,
    DeleteRow: _narrow_repeatable,
    RememberKey: _narrow_key,
    CommitBatch: _narrow_commit,
    CommitSteps: _narrow_steps,
    CreateGroup: _narrow_group,
    UpdateGroup: _narrow_policy,
    RenameStream: _narrow_move,
    CopyStream: _narrow_move,
    ListStreams: _narrow_streams,
    ListNames: _narrow_list,
    ReadPattern: _narrow_list,
    ReadGroups: _narrow_groups,
    ScanNames: _narrow_list,
    PickName: _narrow_list,
    CountStreams: _narrow_list,
    GetSchedule: _narrow_seen,
    ListSchedules: _narrow_seen,
    SetSchedule: _narrow_managed,
    DeleteSchedule: _narrow_managed,
}
