"""Client filter: which connections CLIENT LIST and CLIENT KILL are about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from headgate.app.redis_syntax.words import SYNTAX, CommandError, integer, shown

_TYPES = frozenset({"normal", "master", "replica", "slave", "pubsub"})
_OUR_TYPE = "normal"


class ClientFacts(NamedTuple):
    """The facts of a client for a filter."""

    id: int
    address: str
    local_address: str
    user: str
    age_s: int


class ClientFilter(NamedTuple):
    """A filter of connections; a field that is None leaves nobody out."""

    ids: frozenset[int] | None = None
    address: str | None = None
    local_address: str | None = None
    kind: str | None = None
    user: str | None = None
    age_s_min: int | None = None
    skips_me: bool = True
    but: int | None = None  # the number of a connection that is left out

    def matches(self, client: ClientFacts) -> bool:
        """Tell whether a connection is one of them."""
        return (
            (self.ids is None or client.id in self.ids)
            and self.address in (None, client.address)
            and self.local_address in (None, client.local_address)
            and self.kind in (None, _OUR_TYPE)
            and self.user in (None, client.user)
            and (self.age_s_min is None or client.age_s >= self.age_s_min)
            and client.id != self.but
        )


def read_filter(words: Sequence[bytes]) -> ClientFilter:
    """Read pairs of an option and a value, as of CLIENT KILL.

    Raises:
        CommandError: an option is unknown, or a value is wrong.
    """
    chosen = ClientFilter()
    for option, value in zip(words[::2], words[1::2], strict=True):
        chosen = _with(chosen, option.upper(), value)
    return chosen


def _with(  # noqa: C901 a case for each option
    chosen: ClientFilter, option: bytes, value: bytes
) -> ClientFilter:
    text = value.decode("latin-1")
    match option:
        case b"ID":
            client_id = integer(value, "ERR client-id should be greater than 0")
            if client_id <= 0:
                raise CommandError("ERR client-id should be greater than 0")
            return chosen._replace(ids=frozenset({client_id}))
        case b"ADDR":
            return chosen._replace(address=text)
        case b"LADDR":
            return chosen._replace(local_address=text)
        case b"USER":
            return chosen._replace(user=text)
        case b"TYPE":
            if text.lower() not in _TYPES:
                raise CommandError(f"ERR Unknown client type '{shown(value)}'")
            return chosen._replace(kind=text.lower())
        case b"MAXAGE":
            return chosen._replace(age_s_min=integer(value))
        case b"SKIPME":
            if text.lower() not in ("yes", "no"):
                raise CommandError(SYNTAX)
            return chosen._replace(skips_me=text.lower() == "yes")
    raise CommandError(SYNTAX)
