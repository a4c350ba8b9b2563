"""What the protocol knows of a stream for its whole life, in one attribute."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime
from enum import StrEnum
from weakref import WeakKeyDictionary

import msgspec

from headgate.app.auth.access import Access
from headgate.app.backends.port import Backend
from headgate.app.durable_streams.content import JSON, media_type
from headgate.app.wire.problems import GatewayError
from headgate.engine.errors import StreamNotFound
from headgate.engine.recent import Recent
from headgate.engine.requests.keyspace import ExpireStream, TimeToLive
from headgate.engine.requests.streams import AttributeChange, GetAttributes

CONFIGURATION = b"durable-stream"
"""Attribute that has it. The names of all attributes of the protocol begin so."""

ATTEMPTS_MAX = 50
"""An act is decided anew so often if others change what it relies on."""


class Stage(StrEnum):
    MADE = "made"
    FORKING = "forking"  # what it inherits is being copied: to all but its creator it is not there
    DELETED = "deleted"  # forks refer to it: it takes up its path until they have gone


class ForkOrigin(msgspec.Struct, frozen=True, omit_defaults=True):
    stream: str  # its name
    offset: str | None = None  # None: what was its end then
    sub_offset: int = 0


class DurableStream(msgspec.Struct, frozen=True, omit_defaults=True):
    """The configuration of a stream; one not created by the protocol has the defaults."""

    content_type: str = JSON
    ttl_s: int | None = None  # it goes after so long without a read or a write
    expires_at: str | None = None  # it goes then (RFC 3339)
    origin: ForkOrigin | None = None
    state: Stage = Stage.MADE
    # Of a fork that is being made: the life of its source, and the last id that it takes of it.
    source_epoch: int = 0
    through: str = "0-0"

    def encoded(self) -> bytes:
        return msgspec.json.encode(self)

    def is_like(self, wanted: "DurableStream") -> bool:
        return (
            media_type(self.content_type) == media_type(wanted.content_type)
            and self.ttl_s == wanted.ttl_s
            and self.expires_at_ms == wanted.expires_at_ms
            and self.origin == wanted.origin
        )

    @property
    def expires_at_ms(self) -> int | None:
        """Return the expiry as unix time in milliseconds, or None if use prolongs it."""
        return None if self.expires_at is None else instant_ms(self.expires_at)


def instant_ms(text: str) -> int | None:
    """Return an RFC 3339 timestamp as unix time in milliseconds, or None if it is none."""
    try:
        instant = datetime.fromisoformat(text)
        if "T" not in text.upper() or instant.tzinfo is None:
            return None
        return int(instant.astimezone(UTC).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None


class Known(msgspec.Struct, frozen=True):
    configuration: DurableStream
    attributes: dict[bytes, bytes]

    def as_expected(self, *names: bytes) -> dict[bytes, bytes | None]:
        """Return the values of these and of the configuration, for a change that relies on them."""
        return {name: self.attributes.get(name) for name in (CONFIGURATION, *names)}

    def changed(self, values: dict[bytes, bytes | None], *names: bytes) -> AttributeChange:
        """Return a change on condition that the configuration and these attributes are the same."""
        return AttributeChange(values, self.as_expected(*names))


async def attributes_of(
    access: Access, stream: bytes, *names: bytes, has_all: bool = False
) -> Known:
    """Return attributes of a stream in any state, without checking rights.

    `names` are besides the configuration; `has_all` requests all. Raises StreamNotFound.
    """
    wanted = None if has_all else [CONFIGURATION, *names]
    attributes = await access.backend.perform(GetAttributes(stream, wanted))
    text = attributes.get(CONFIGURATION)
    if text is None:
        return Known(DurableStream(), attributes)
    return Known(msgspec.json.decode(text, type=DurableStream), attributes)


async def known(access: Access, stream: bytes, *names: bytes) -> Known:
    """Return attributes of a usable stream without checking rights; GatewayError if deleted."""
    there = await attributes_of(access, stream, *names)
    if there.configuration.state is Stage.DELETED:
        raise gone()
    if there.configuration.state is Stage.FORKING:
        raise StreamNotFound(stream)
    return there


def gone() -> GatewayError:
    return GatewayError("gone", "The stream is deleted, but forks of it still exist.")


_TTL = re.compile(r"0|[1-9][0-9]{0,9}")

_LATE_SHARE = 20
"""An idle stream goes up to a twentieth of its time late, so that not each read sets its expiry."""


def parse_lifetime(ttl: str | None, expires_at: str | None) -> tuple[int | None, str | None]:
    """Read the lifetime headers: seconds without use, and a timestamp; raises GatewayError."""
    if ttl is not None and expires_at is not None:
        text = "not allowed with Stream-TTL"
        raise GatewayError("malformed", text, pointer="/header/Stream-Expires-At")
    if ttl is not None and _TTL.fullmatch(ttl) is None:
        text = "should be a whole number of seconds in plain decimal"
        raise GatewayError("malformed", text, pointer="/header/Stream-TTL")
    if expires_at is not None and instant_ms(expires_at) is None:
        text = "should be a timestamp as of RFC 3339, such as 2030-01-31T12:00:00Z"
        raise GatewayError("malformed", text, pointer="/header/Stream-Expires-At")
    return None if ttl is None else int(ttl), expires_at


async def begin_life(access: Access, stream: bytes, configuration: DurableStream) -> None:
    """Set a new stream's expiry; no right is needed, as its creator asked for it."""
    at_ms = configuration.expires_at_ms
    if at_ms is not None:
        with suppress(StreamNotFound):
            await access.backend.perform(ExpireStream(stream, 0, at_ms=at_ms))
    await prolong_life(access, stream, configuration)


async def prolong_life(access: Access, stream: bytes, configuration: DurableStream) -> None:
    """Prolong a used stream's expiry; no right is needed, as the stream itself says so."""
    if configuration.ttl_s is None:
        return
    ttl_ms, perform = configuration.ttl_s * 1000, access.backend.perform
    with suppress(StreamNotFound):
        left_ms = await perform(TimeToLive(stream))
        known = await perform(GetAttributes(stream, [CONFIGURATION]))
        is_same = known.get(CONFIGURATION) == configuration.encoded()  # or it is made anew, or gone
        if is_same and (left_ms is None or left_ms < ttl_ms):
            await perform(ExpireStream(stream, ttl_ms + ttl_ms // _LATE_SHARE))


_LOOK_PAUSE_S = 10.0

_looked_through: WeakKeyDictionary[Backend, Recent[bytes, float]] = WeakKeyDictionary()
"""By backend and stream, when it was looked through."""


async def make_room(
    access: Access, stream: bytes, *forget: Callable[[Access, bytes], Awaitable[bool]]
) -> bool:
    """Forget useless attributes of a full stream; return whether there is more room now.

    That takes long, so a stream is searched only once in a while, however often it is full. Each
    `forget` tells whether there was anything of its kind.
    """
    looked = _looked_through.setdefault(access.backend, Recent())
    now_s, before_s = asyncio.get_running_loop().time(), looked.get(stream)
    if before_s is not None and now_s - before_s < _LOOK_PAUSE_S:
        return False
    looked.put(stream, now_s, len(stream))
    return any([await each(access, stream) for each in forget])
