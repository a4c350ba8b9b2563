"""Access: the backend as one principal may use it. All requests of clients pass here.

1. The rights are checked by the value of the request, before anything is looked up.
2. The request is narrowed: a list to the names that may be read, an append to streams that exist
   unless the principal may create them.
3. The backend performs it.
"""

from collections.abc import Callable, Coroutine, Iterable
from collections.abc import Set as AbstractSet
from typing import Any, Self, TypeVar

from msgspec.structs import replace

from headgate.app.auth.grants import Verb
from headgate.app.auth.principal import Forbidden, Need, Principal
from headgate.app.auth.rights import is_act, rule_of
from headgate.app.backends.port import Backend, ClaimFeed, Commands
from headgate.engine.errors import StreamNotFound
from headgate.engine.requests import Request
from headgate.engine.requests.bulk import CommitBatch
from headgate.engine.requests.entries import Add
from headgate.engine.requests.groups import CreateGroup
from headgate.engine.requests.keyspace import CountStreams, ListNames, ScanNames
from headgate.engine.requests.streams import ListStreams

T = TypeVar("T")
ListRequest = TypeVar("ListRequest", ListStreams, ListNames, ScanNames, CountStreams)

_CREATE = "manage on a stream that is to be created, or append by a grant with `create`"


class Access:
    """What a principal may do with a backend."""

    __slots__ = ("backend", "principal")

    def __init__(self, backend: Backend, principal: Principal) -> None:
        """Let a principal use a backend.

        Args:
            backend: unguarded; what ends a connection uses it, whatever the principal may do.
            principal: who asks. On a connection another one may take its place.
        """
        self.backend = backend
        self.principal = principal

    def copy(self) -> Self:
        """Return an access of the same principal, which another one may take over."""
        return type(self)(self.backend, self.principal)

    @property
    def claim_feed(self) -> ClaimFeed | None:
        """Return the feed of takeovers, or None. Who may read as a consumer may follow it."""
        return self.backend.claim_feed

    @property
    def commands(self) -> Commands | None:
        """Return the runner of Redis commands in the name of the principal, or None."""
        commands = self.backend.commands
        return None if commands is None else commands.by(self)

    def check(self, verbs: AbstractSet[Verb]) -> None:
        """Refuse what needs one of these verbs, on whatever stream. No verb: any will do.

        Raises:
            Forbidden: the principal has none of them.
            Unauthenticated: likewise, and nobody has said who asks; or the credential has ended.
        """
        self.principal.check_any(verbs)

    def require(self, needs: Iterable[Need]) -> None:
        """Refuse what the rights are not enough for; raises as `perform`."""
        for need in needs:
            self.principal.check(need)

    def perform(self, request: Request[T]) -> Coroutine[Any, Any, T]:
        """Carry out a request, as `Backend.perform` does.

        Raises:
            Forbidden: the principal may not do this. Nothing was looked up.
            Unauthenticated: likewise, and nobody has said who asks; or the credential has ended.
        """
        admitted = self.admit(request)
        if admitted is request and not is_act(type(request)):
            return self.backend.perform(request)
        return self._perform(request, admitted)

    def admit(self, request: Request[T]) -> Request[T]:
        """Return the request as it may be performed; raises as `perform`."""
        principal = self.principal
        principal.check_valid()
        kind = type(request)
        self.require(rule_of(kind)(request))
        narrow = _NARROW.get(kind)
        return request if narrow is None else narrow(request, principal)

    def own_writer(self, writer: bytes) -> bytes:
        """Return the name under which a writer of this principal is remembered.

        A batch of a writer is committed once. So a principal must not commit in the name of the
        writer of another one, whose batches would be taken for repeats.
        """
        principal = self.principal
        if principal.may(_APPEND_EVERYWHERE):
            return writer
        return b"%b/%b" % (principal.id.encode(), writer)  # a name itself has no slash

    async def _perform(self, request: Request[T], admitted: Request[T]) -> T:
        try:
            return await self.backend.perform(admitted)
        except StreamNotFound:
            if admitted is not request and isinstance(request, Add | CommitBatch | CreateGroup):
                raise Forbidden(_CREATE) from None
            raise


class HomeAccess(Access):
    """The backend as anybody may use it, where no credentials are configured."""

    __slots__ = ()

    def require(self, needs: Iterable[Need]) -> None:
        """Refuse what the rights are not enough for; raises as `perform`."""
        for need in needs:
            self.principal.check(need)

    def perform(self, request: Request[T]) -> Coroutine[Any, Any, T]:
        """Carry out a request."""
        return self.backend.perform(request)

    def admit(self, request: Request[T]) -> Request[T]:
        """Return the request."""
        return request


_APPEND_EVERYWHERE = Need((Verb.APPEND,))


def _narrow_add(request: Add, principal: Principal) -> Add:
    if request.create_stream and not principal.may_create(request.stream):
        return replace(request, create_stream=False)
    return request


def _narrow_commit(request: CommitBatch, principal: Principal) -> CommitBatch:
    if request.create_streams and not all(map(principal.may_create, request.drafts)):
        return replace(request, create_streams=False)
    return request


def _narrow_group(request: CreateGroup, principal: Principal) -> CreateGroup:
    if request.create_stream and not principal.may(Need((Verb.MANAGE,), request.stream)):
        return replace(request, create_stream=False)
    return request


def _narrow_list(request: ListRequest, principal: Principal) -> ListRequest:
    readable = principal.readable
    return request if readable is None else replace(request, only=readable)


_NARROW: dict[type[Request[Any]], Callable[[Any, Principal], Any]] = {
    Add: _narrow_add,
    CommitBatch: _narrow_commit,
    CreateGroup: _narrow_group,
    ListStreams: _narrow_list,
    ListNames: _narrow_list,
    ScanNames: _narrow_list,
    CountStreams: _narrow_list,
}
