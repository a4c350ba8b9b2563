"""Configuration: what the protocol knows of a stream for its whole life, in one attribute."""

from datetime import UTC, datetime
from enum import StrEnum

import msgspec

from headgate.app.auth.access import Access
from headgate.app.durable_streams.content import JSON, media_type
from headgate.app.wire.problems import GatewayError
from headgate.engine.errors import StreamNotFound
from headgate.engine.requests.attributes import AttributeChange, GetAttributes

CONFIGURATION = b"durable-stream"
"""Attribute that has it. The names of all attributes of the protocol begin so."""

ATTEMPTS_MAX = 50
"""An act is decided anew so often if others change what it relies on."""


class Stage(StrEnum):
    """The stages of a stream."""

    MADE = "made"
    FORKING = "forking"  # what it inherits is being copied: to all but its creator it is not there
    DELETED = "deleted"  # forks refer to it: it takes up its path until they have gone


class ForkOrigin(msgspec.Struct, frozen=True, omit_defaults=True):
    """The origin of a fork, as it was asked for."""

    stream: str  # its name
    offset: str | None = None  # None: what was its end then
    sub_offset: int = 0


class DurableStream(msgspec.Struct, frozen=True, omit_defaults=True):
    """The configuration of a stream. One that the protocol has not made has the defaults."""

    content_type: str = JSON
    ttl_s: int | None = None  # it goes after so long without a read or a write
    expires_at: str | None = None  # it goes then (RFC 3339)
    origin: ForkOrigin | None = None
    state: Stage = Stage.MADE
    # Of a fork that is being made: the life of its source, and the last id that it takes of it.
    source_epoch: int = 0
    through: str = "0-0"

    def encoded(self) -> bytes:
        """Return the value of the attribute."""
        return msgspec.json.encode(self)

    def is_like(self, wanted: "DurableStream") -> bool:
        """Tell whether a stream with this configuration is what a request wants to make."""
        return (
            media_type(self.content_type) == media_type(wanted.content_type)
            and self.ttl_s == wanted.ttl_s
            and self.expires_at_ms == wanted.expires_at_ms
            and self.origin == wanted.origin
        )

    @property
    def expires_at_ms(self) -> int | None:
        """Return the unix time in milliseconds at which it goes, if that is fixed."""
        return None if self.expires_at is None else instant_ms(self.expires_at)


def instant_ms(text: str) -> int | None:
    """Return the unix time in milliseconds of an RFC 3339 timestamp; None if it is none."""
    try:
        instant = datetime.fromisoformat(text)
        if "T" not in text.upper() or instant.tzinfo is None:
            return None
        return int(instant.astimezone(UTC).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None


class Known(msgspec.Struct, frozen=True):
    """The attributes of a stream at one moment."""

    configuration: DurableStream
    attributes: dict[bytes, bytes]

    def as_expected(self, *names: bytes) -> dict[bytes, bytes | None]:
        """Return the values of these and of the configuration, for a change that relies on them."""
        return {name: self.attributes.get(name) for name in (CONFIGURATION, *names)}

    def changed(self, values: dict[bytes, bytes | None], *names: bytes) -> AttributeChange:
        """Return a change for a stream that still has the configuration, and these attributes."""
        return AttributeChange(values, self.as_expected(*names))


async def attributes_of(
    access: Access, stream: bytes, *names: bytes, has_all: bool = False
) -> Known:
    """Return attributes of a stream, whatever its state. Rights are checked elsewhere.

    Args:
        access: to its backend.
        stream: its name.
        names: of attributes beside the configuration.
        has_all: all attributes are asked for.

    Raises:
        StreamNotFound: there is no such stream.
    """
    wanted = None if has_all else [CONFIGURATION, *names]
    attributes = await access.backend.perform(GetAttributes(stream, wanted))
    text = attributes.get(CONFIGURATION)
    if text is None:
        return Known(DurableStream(), attributes)
    return Known(msgspec.json.decode(text, type=DurableStream), attributes)


async def known(access: Access, stream: bytes, *names: bytes) -> Known:
    """Return attributes of a stream that can be used. Rights are checked elsewhere.

    Raises:
        StreamNotFound: there is no such stream.
        GatewayError: it is deleted, and forks still refer to it.
    """
    there = await attributes_of(access, stream, *names)
    if there.configuration.state is Stage.DELETED:
        raise gone()
    if there.configuration.state is Stage.FORKING:
        raise StreamNotFound(stream)
    return there


def gone() -> GatewayError:
    """Return the error of a stream that is deleted while forks refer to it."""
    return GatewayError("gone", "The stream is deleted; forks of it are still there.")
