"""Everything the engine can say no with.

    StreamError
    ├── NotFound
    │   ├── StreamNotFound
    │   ├── GroupNotFound
    │   └── EntryNotFound
    ├── Conflict
    │   ├── StreamExists
    │   ├── GroupExists
    │   ├── IdNotGreater
    │   ├── IdsExhausted
    │   ├── LastIdMismatch
    │   ├── IdempotencyMismatch
    │   └── LimitReached
    ├── Invalid
    │   ├── InvalidId
    │   ├── EntryTooLarge
    │   └── CounterTooLow
    ├── LimitExceeded
    │   └── TooManyWaiters
    ├── Unavailable
    │   ├── Draining
    │   └── MemoryFull
    └── Corrupt
        ├── Broken
        └── NewerFormat

The classes of the middle row are what a caller maps to its own language (the gateway: status
codes); the leaves carry the facts as attributes, and a text for people. What Redis would say is the
business of `app.redis_syntax.errors`.
"""

from __future__ import annotations

Location = tuple[str | int, ...]
"""Which part of a request: names of its parts, and places in its lists from 0; () is no part."""

_SHOWN_MAX = 64
"""So much of a text that makes no sense is shown."""


class StreamError(Exception):
    """Base of every error the engine raises on purpose; nothing was changed when it is raised."""

    location: Location = ()  # which part of the request is at fault


class NotFound(StreamError):
    """What was named does not exist."""


class Conflict(StreamError):
    """The request contradicts what is already there."""


class Invalid(StreamError):
    """The request makes no sense whatever the state."""

    def __init__(self, text: str, *, location: Location = ()) -> None:
        """Keep the text for people, and for programs where it is wrong."""
        super().__init__(text)
        self.location = location


class LimitExceeded(StreamError):
    """A bound of `engine.limits` (or of the caller's settings) would be passed."""

    def __init__(self, what: str, limit: int) -> None:
        """Keep what is bounded and by how much."""
        super().__init__(f"too many {what}: the limit is {limit}")
        self.what = what
        self.limit = limit


ENTRY_BYTES = "bytes of entries"
"""What a reply has too much of, if its entries are too large."""


class ReplyTooLarge(LimitExceeded):
    """A reply would hold more than its bounds allow, and a part of it would be wrong."""


class TooManyWaiters(LimitExceeded):
    """As many reads are blocked as may be."""

    def __init__(self, limit: int) -> None:
        """Keep how many that is."""
        super().__init__("blocked reads", limit)


class NotSupported(StreamError):
    """The backend has not the ability that a request needs."""

    def __init__(self, ability: str) -> None:
        """Keep the ability."""
        text = f"this backend lacks {ability}, which the embedded engine has"
        super().__init__(f"{text}; GET /v1/limits lists what a backend can")
        self.ability = ability


class Unavailable(StreamError):
    """The engine cannot promise durability any more, so it takes no writes."""


class Draining(Unavailable):
    """The engine is about to stop: it answers, but waits for nothing any more."""

    def __init__(self) -> None:
        """Say so."""
        super().__init__("the gateway is about to stop")


class MemoryFull(Unavailable):
    """The state takes all the memory it may, and this would add to it."""

    def __init__(self) -> None:
        """Say so, and what helps."""
        text = "the streams take all the memory they may: acknowledge, trim or delete something"
        super().__init__(text)


class Corrupt(StreamError):
    """A file does not hold what was written to it; nothing is made of it by guessing."""

    def __init__(self, name: str, offset: int, why: str, *, record: int | None = None) -> None:
        """Keep which file, where in it, and what is wrong.

        Args:
            name: of the file.
            offset: of the block that is meant.
            why: what is wrong.
            record: the first record of that block that makes no sense, if those before it do.
        """
        which = "" if record is None else f"record {record} "
        super().__init__(f"{name}, byte {offset}: {which}{why}")
        self.name = name
        self.offset = offset
        self.why = why
        self.record = record


class Broken(Corrupt):
    """Bytes that are no block: damage, unless they are a tail that a crash tore."""


class NewerFormat(Corrupt):
    """A file written by a newer version: whole, but not ours to read."""


class StreamNotFound(NotFound):
    """No stream of that name."""

    def __init__(self, stream: bytes) -> None:
        super().__init__(f"there is no stream {_quoted(stream)}")
        self.stream = stream


class GroupNotFound(NotFound):
    """The stream is missing or has no group of that name."""

    def __init__(self, stream: bytes, group: bytes, *, stream_exists: bool = True) -> None:
        """Keep both names, and which of the two is missing."""
        text = f"there is no stream {_quoted(stream)}"
        if stream_exists:
            text = f"stream {_quoted(stream)} has no group {_quoted(group)}"
        super().__init__(text)
        self.stream = stream
        self.group = group
        self.stream_exists = stream_exists


class EntryNotFound(NotFound):
    """No live entry has that id."""

    def __init__(self, stream: bytes, entry_id: object) -> None:
        """Keep where it was looked for, and the id."""
        super().__init__(f"no entry {entry_id} in stream {_quoted(stream)}")
        self.stream = stream
        self.entry_id = entry_id


class StreamExists(Conflict):
    """A stream of that name exists with another configuration."""

    def __init__(self, stream: bytes) -> None:
        super().__init__(f"stream {_quoted(stream)} exists with another configuration")
        self.stream = stream


class GroupExists(Conflict):
    """A group of that name exists (Redis: BUSYGROUP)."""

    def __init__(self, stream: bytes, group: bytes) -> None:
        """Keep both names."""
        super().__init__(f"stream {_quoted(stream)} has a group {_quoted(group)} already")
        self.stream = stream
        self.group = group


class IdNotGreater(Conflict):
    """An explicit id is not above the last one before it."""

    def __init__(self, wanted: object, *, last_id: object, index: int) -> None:
        """Keep what id was asked for, the last one, and which entry of the batch was refused."""
        super().__init__(f"the id is not above {last_id}, the last one before it")
        self.wanted = wanted
        self.last_id = last_id
        self.location = ("drafts", index, "id")
        self.stream: bytes | None = None  # where the request names several


class IdsExhausted(Conflict):
    """The stream's last id is the greatest there is."""

    def __init__(self) -> None:
        """Say so."""
        super().__init__("the ids of the stream are exhausted: its last id is the greatest")


class LastIdMismatch(Conflict):
    """The stream's last id is not the one the writer expected; something came between."""

    def __init__(self, *, expected: object, last_id: object) -> None:
        """Keep what was expected and what is."""
        super().__init__(f"the last id is {last_id}, not {expected}")
        self.expected = expected
        self.last_id = last_id


class IdempotencyMismatch(Conflict):
    """The idempotency key was used for another request."""

    def __init__(self, key: bytes) -> None:
        """Keep the key."""
        super().__init__("the idempotency key was used for another request")
        self.key = key


class LimitReached(Conflict):
    """There are as many of a thing as there may be: another one needs one of them to go."""

    def __init__(self, what: str, limit: int) -> None:
        """Keep what is bounded, and by how much."""
        super().__init__(f"too many {what}: the limit is {limit}")
        self.what = what
        self.limit = limit


class InvalidId(Invalid):
    """A text is no entry id."""

    def __init__(self, text: str) -> None:
        """Keep the text that did not parse."""
        shown = text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…"
        why = f"{shown!r} is not an entry id: write ms-seq, as 1718000000000-0"
        super().__init__(why)
        self.text = text


class EntryTooLarge(Invalid):
    """The names and values of an entry have too many bytes."""

    def __init__(self, size_bytes_max: int, *, location: Location) -> None:
        """Keep how many they may have."""
        super().__init__(f"an entry has at most {size_bytes_max} bytes", location=location)
        self.size_bytes_max = size_bytes_max


class CounterTooLow(Invalid):
    """A counter of a stream would contradict its entries, or what was deleted of them."""

    def __init__(self, field: str, than: str, what: str) -> None:
        """Keep which counter would be too low, and beside what.

        Args:
            field: the counter.
            than: the name of what it must not be below.
            what: that, in words.
        """
        super().__init__(f"{field} is below {what}", location=(field,))
        self.than = than


def _quoted(name: bytes) -> str:
    return repr(name.decode(errors="replace"))
