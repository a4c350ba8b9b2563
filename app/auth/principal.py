"""The caller: every kind of connection turns a credential into one, and asks its rights."""

import logging
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import NamedTuple, TypeVar
from weakref import WeakSet

from headgate.app.auth.grants import EVERYTHING, Pattern, Right, UsageLimits, Verb, verbs_of
from headgate.app.wire.names import text_of
from headgate.app.wire.problems import GatewayError
from headgate.engine.clock import Clock
from headgate.engine.requests.entries import RowKeys
from headgate.engine.requests.keyspace import RESERVED, NameFilter, is_reserved

log = logging.getLogger("headgate")

_ALLOWED_MAX = 1_000
"""Answers that a principal remembers,"""
_REMEMBERED_BYTES_MAX = 1024
"""each if its names are no longer than this: a command may have names of any length."""


class Need(NamedTuple):
    """A need of a request: one of the verbs on a stream or group, or as a consumer."""

    verbs: tuple[Verb, ...]
    stream: bytes | None = None  # None: all streams together
    group: bytes | None = None  # None: the stream itself
    consumer: bytes | None = None  # None: the whole group
    is_shared: bool = False  # the same for all consumers, so a grant for one of them is enough
    is_owned: bool = False  # the name is that of a feature's object, such as a subscription
    keys: RowKeys | None = None  # of rows of its table; None: the stream as a whole

    @property
    def is_reserved(self) -> bool:
        """Tell whether the stream is one of the gateway's own, which no grant covers."""
        return self.stream is not None and not self.is_owned and is_reserved(self.stream)

    def __str__(self) -> str:
        text = f"{' or '.join(self.verbs)} on {_shown(self.stream)}"
        if self.keys is not None:
            text += f", key {_shown(self.keys.text)}" + "*" * self.keys.is_prefix
        if self.group is not None:
            text += f", group {_shown(self.group)}"
        return text if self.consumer is None else f"{text}, as consumer {_shown(self.consumer)}"


ADMIN = Need((Verb.ADMIN,))
"""The need of what is about the whole gateway."""

K = TypeVar("K", Need, bytes)


def _shown(name: bytes | None) -> str:
    return "'*'" if name is None else repr(text_of(name))


class Unauthenticated(GatewayError):
    """There is no credential, or it is invalid or has ended."""

    def __init__(self, detail: str) -> None:
        super().__init__("unauthenticated", detail)


class Forbidden(GatewayError):
    """The principal may not do this; the text names the missing right, never what exists."""

    def __init__(self, need: Need | str) -> None:
        super().__init__("forbidden", f"This needs {need}, and the credential does not allow it.")


class Reserved(Forbidden):
    def __init__(self, stream: bytes | None) -> None:
        text = f"Names that begin with `{RESERVED.decode()}` are reserved for the gateway"
        rule = "their streams can be read and deleted with `admin`, but not changed"
        GatewayError.__init__(self, "forbidden", f"{text}, as {_shown(stream)}: {rule}.")


class Principal:
    __slots__ = (
        "__weakref__",
        "_allowed",
        "_creates",
        "_has_keys",
        "_on_end",
        "_tickets",
        "appendable",
        "ending",
        "expires_at_ms",
        "id",
        "is_anonymous",
        "is_home",
        "key",
        "limits",
        "parent",
        "rights",
        "user",
        "verbs",
    )

    def __init__(
        self,
        id: str,  # noqa: A002
        rights: Sequence[Right],
        *,
        limits: UsageLimits = UsageLimits(),  # noqa: B008 it is a value
        expires_at_ms: int | None = None,
        key: str | None = None,
        parent: "Principal | None" = None,
        is_anonymous: bool = False,
        is_home: bool = False,
        user: str | None = None,
    ) -> None:
        """Create a principal.

        `id` is the name of a key or the subject of a token. Limits that are None come from the
        settings. `expires_at_ms` None means never. `key` names the key for the log, never its
        secret. The rights of `parent` bound these, as a ticket allows no more than its owner may.
        `user` is who is at a page with a ticket, if its server says so. `is_anonymous`: nobody has
        said who asks. `is_home`: nobody has to, as there are no credentials.
        """
        self.id = id
        self.rights = tuple(rights)
        self.verbs = verbs_of(self.rights)
        self._has_keys = any(right.keys is not None for right in self.rights)
        self.limits = limits
        self.expires_at_ms = expires_at_ms
        self.key = key
        self.parent = parent
        self.user = user
        self.is_anonymous = is_anonymous
        self.is_home = is_home
        self.ending: str | None = None  # why the credential is no longer valid
        self._allowed: dict[Need, bool] = {}
        self.appendable: set[bytes] = set()  # streams to which it is known to append, and create
        self._creates: dict[bytes, bool] = {}
        self._on_end: set[Callable[[], object]] = set()
        self._tickets: WeakSet[Principal] | None = None

    def may_all(self, needs: Iterable[Need]) -> bool:
        """Tell whether the rights are already known to cover all this; False means unknown."""
        return self.ending is None and all(map(self._allowed.get, needs))

    def may(self, need: Need) -> bool:
        if need.keys is not None and not self._has_keys:
            need = need._replace(keys=None)
        known = self._allowed.get(need)
        if known is None:
            if need.is_reserved:
                known = Verb.READ in need.verbs and self.may(ADMIN)
            else:
                known = any(_allows(right, need) for right in self.rights) and (
                    self.parent is None or self.parent.may(need)
                )
            if need.keys is None and _length_of(need) <= _REMEMBERED_BYTES_MAX:
                _remember(self._allowed, need, known)
        return known

    def check(self, need: Need) -> None:
        """Check that the rights cover a need; raises Forbidden or Unauthenticated."""
        if not self.may(need):
            raise Reserved(need.stream) if need.is_reserved else self._refusal(str(need))

    def check_any(self, verbs: AbstractSet[Verb]) -> None:
        """Check that the rights have one of these verbs on any stream; no verbs accept any."""
        self.check_valid()
        if self.verbs.isdisjoint(verbs or Verb):
            raise self._refusal(" or ".join(sorted(verbs or ("a grant",))))

    def check_valid(self) -> None:
        """Raise Unauthenticated, saying why, once the credential has ended."""
        if self.ending is not None:
            raise Unauthenticated(self.ending)

    def is_expired(self, clock: Clock) -> bool:
        return self.expires_at_ms is not None and clock.wall_ms() >= self.expires_at_ms

    def reach(
        self, verbs: tuple[Verb, ...], group: bytes | None = None, consumer: bytes | None = None
    ) -> NameFilter | None:
        """Return the streams on which one of these verbs is allowed; None means all.

        Reserved names are not among them, unless it is None. With a group or a consumer, it is
        allowed on that group of these streams, or as that consumer.
        """
        if self.may(Need(verbs, None, group, consumer)):
            return None
        patterns = {
            pattern
            for right in self.rights
            if _reaches(right, Need(verbs, None, group, consumer))
            for pattern in right.streams
        }
        patterns = {pattern for pattern in patterns if not is_reserved(pattern.text)}
        names = frozenset(pattern.text for pattern in patterns if not pattern.is_prefix)
        if self.parent is not None:  # a ticket has names only
            names = frozenset(
                name for name in names if self.may(Need(verbs, name, group, consumer))
            )
        prefixes = sorted(pattern.text for pattern in patterns if pattern.is_prefix)
        return NameFilter(names, tuple(prefixes))

    def may_create(self, stream: bytes) -> bool:
        known = self._creates.get(stream)
        if known is None:
            known = self.may(Need((Verb.MANAGE,), stream)) or (
                any(
                    right.create and Verb.APPEND in right.verbs and _names(right, stream)
                    for right in self.rights
                    if not is_reserved(stream)
                )
                and (self.parent is None or self.parent.may_create(stream))
            )
            if len(stream) <= _REMEMBERED_BYTES_MAX:
                _remember(self._creates, stream, known)
        return known

    def _refusal(self, what: str) -> GatewayError:
        if self.is_anonymous:
            return Unauthenticated(f"This needs {what}: send a key or a token as `Bearer`.")
        return Forbidden(what)

    def end(self, reason: str) -> None:
        """End the credential once, and call those who wait for that."""
        if self.ending is None:
            self.ending = reason
            for callback in list(self._on_end):
                try:
                    callback()
                except Exception:  # the others end all the same
                    log.exception("a connection could not be ended with its credential")
            for ticket in list(self._tickets or ()):
                ticket.end(reason)

    def at_end(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call back when the credential is ended; return a function to cancel that."""
        self._on_end.add(callback)
        return partial(self._on_end.discard, callback)

    def own(self, ticket: "Principal") -> None:
        if self._tickets is None:
            self._tickets = WeakSet()
        self._tickets.add(ticket)


def _length_of(need: Need) -> int:
    return sum(map(len, filter(None, (need.stream, need.group, need.consumer))))


def _remember(answers: dict[K, bool], question: K, answer: bool) -> None:
    if len(answers) >= _ALLOWED_MAX:
        answers.clear()
    answers[question] = answer


def _names(right: Right, stream: bytes) -> bool:
    is_whole = right.groups is None and right.keys is None
    return is_whole and any(pattern.matches(stream) for pattern in right.streams)


def _allows(right: Right, need: Need) -> bool:
    if need.stream is None:
        if not any(pattern.is_prefix and pattern.text == b"" for pattern in right.streams):
            return False
    elif not any(pattern.matches(need.stream) for pattern in right.streams):
        return False
    return _reaches(right, need)


def _reaches(right: Right, need: Need) -> bool:
    """Tell whether a right allows this on its streams, whichever these are."""
    if right.verbs.isdisjoint(need.verbs):
        return False
    if right.groups is not None and (
        need.group is None or not any(pattern.matches(need.group) for pattern in right.groups)
    ):
        return False
    if right.keys is not None and (
        need.keys is None or not any(_covers(pattern, need.keys) for pattern in right.keys)
    ):
        return False
    if right.consumer is None or need.is_shared:
        return True
    return need.consumer is not None and right.consumer.matches(need.consumer)


def _covers(pattern: Pattern, keys: RowKeys) -> bool:
    return pattern.matches(keys.text) and (pattern.is_prefix or not keys.is_prefix)


def home() -> Principal:
    return Principal("anonymous", (EVERYTHING,), is_anonymous=True, is_home=True)
