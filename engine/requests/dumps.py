"""Dumps: streams as one value, to be dumped, restored and copied; what one takes."""

from __future__ import annotations

from headgate.engine.images import StreamImage
from headgate.engine.requests import Request
from headgate.engine.requests.names import NameFilter


class DumpStream(Request[StreamImage], frozen=True):
    """Return a stream as one value (DUMP), as it is at one moment.

    Raises:
        StreamNotFound: the stream does not exist.
        StreamTooLarge: it takes more than `size_bytes_max` bytes, or its groups have too much.
    """

    stream: bytes
    size_bytes_max: int


class RestoreStream(Request[None], frozen=True):
    """Make a stream of a value (RESTORE), at one moment.

    The stream that it replaces goes with all its groups. It expires in `ttl_ms` or at a moment; if
    that has passed, no stream is made.

    Raises:
        StreamExists: the stream exists, and `replace` is false.
        LimitReached: there would be more streams, groups, consumers or producers than there may be.
    """

    stream: bytes
    image: StreamImage
    replace: bool = False
    ttl_ms: int | None = None
    expires_at_ms: int | None = None  # unix time; None and no `ttl_ms`: never


class CopyStream(Request[bool], frozen=True):
    """Copy a stream with everything in it (COPY); the reply is false if `to` exists.

    With `replace`, a stream `to` that exists is deleted. Policies of its groups that are copied may
    name the streams of `reach`.

    Raises:
        StreamNotFound: the stream does not exist.
        OutOfReach: a policy names another stream.
        StreamTooLarge: it has too much to be copied at one moment.
        LimitReached: there are as many streams as there may be.
    """

    stream: bytes
    to: bytes
    replace: bool = False
    reach: NameFilter | None = None  # None: all


class MeasureStream(Request[int], frozen=True):
    """Return how many bytes of memory a stream takes, about (MEMORY USAGE).

    Raises:
        StreamNotFound: the stream does not exist.
    """

    stream: bytes
    samples: int | None = None  # values that a server looks at, 0: all; None: as it does by default
