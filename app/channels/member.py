"""Member: somebody who is present at a channel or at a stream."""

from typing import Final, Literal, NamedTuple

import msgspec

DATA_BYTES_MAX: Final = 1024
"""Bytes of what a connection says of itself, as JSON."""

KEY_LENGTH_MAX: Final = 64
"""Characters of a client's name for its connection."""


class Place(NamedTuple):
    """Where somebody is."""

    kind: Literal["channel", "stream"]
    name: bytes


class PresenceRecord(NamedTuple):
    """A connection that is present."""

    place: Place
    user: str | None  # None: nobody has said who that is
    key: str  # the client's name for the connection: another one with the same takes its place
    data: bytes  # JSON
    since_ms: int

    @property
    def member(self) -> str:
        """Return the identity of the member: a user, or a connection without one."""
        return f"connection:{self.key}" if self.user is None else f"user:{self.user}"


class MemberConnection(msgspec.Struct):
    key: str
    since_ms: int
    data: msgspec.Raw


class PlaceMember(msgspec.Struct):
    id: str
    user: str | None
    connections: list[MemberConnection]
