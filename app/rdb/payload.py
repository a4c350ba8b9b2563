"""Payload: one stream as the reply of DUMP, which RESTORE takes.

```text
payload = type:u8 value version:u16 checksum:u64        little-endian; the checksum is over all before it
```
"""  # noqa: E501 the line of the grammar

from __future__ import annotations

from collections.abc import Iterator

from headgate.app.rdb.errors import RdbError
from headgate.app.rdb.events import StreamCounters, StreamEntries
from headgate.app.rdb.skipping import KEY_META, skip_key_meta
from headgate.app.rdb.source import Source, checksum_of
from headgate.app.rdb.streams import read_stream
from headgate.app.rdb.strings import read_length
from headgate.app.rdb.types import StreamType, is_known, stream_type
from headgate.app.rdb.writer import write_stream
from headgate.engine.entry import MIN_ID, Entry
from headgate.engine.images import CountersImage, GroupImage, KeysImage, StreamImage

_VERSION_BYTES = 2
_CHECKSUM_BYTES = 8
_FOOTER_BYTES = _VERSION_BYTES + _CHECKSUM_BYTES


class WrongFooter(RdbError):
    """The payload has a version that we cannot read, or a wrong checksum."""


class NoStream(RdbError):
    """The payload is of another type."""


class PayloadReader:
    """Reads a payload in steps.

    `size_bytes_max` bounds what its strings take when they are no longer compressed, each of them.
    """

    def __init__(self, payload: bytes, size_bytes_max: int) -> None:
        """Check the footer.

        Raises:
            WrongFooter: it is wrong.
        """
        body = payload[:-_FOOTER_BYTES]
        version = int.from_bytes(payload[-_FOOTER_BYTES:-_CHECKSUM_BYTES], "little")
        checksum = int.from_bytes(payload[-_CHECKSUM_BYTES:], "little")
        if len(payload) <= _FOOTER_BYTES or not is_known(version):
            raise WrongFooter(f"a payload has version {version}")
        if checksum_of(payload[:-_CHECKSUM_BYTES]) != checksum:
            raise WrongFooter("a payload has a wrong checksum")
        self._source = Source.of(body, size_bytes_max)
        self._entries: list[Entry] = []
        self._counters = CountersImage(MIN_ID, MIN_ID, 0)
        self._groups: list[GroupImage] = []
        self._keys: KeysImage | None = None

    def steps(self) -> Iterator[None]:
        """Read the stream, one node or one group in each step.

        Raises:
            NoStream: the payload is of another type.
            RdbError: its bytes make no sense.
        """
        source = self._source
        number = source.byte()
        if number == KEY_META:
            skip_key_meta(source)
            number = source.byte()
        try:
            kind = StreamType(number)
        except ValueError:
            raise NoStream(f"a payload has a value of type {number}") from None
        for part in read_stream(source, kind, read_length(source)):
            match part:
                case StreamEntries(entries):
                    self._entries += entries
                case StreamCounters(_, _, counters):
                    self._counters = counters
                case GroupImage():
                    self._groups.append(part)
                case KeysImage():
                    self._keys = part
            yield
        if not source.is_exhausted:
            raise source.error("a payload goes on behind its value")

    @property
    def image(self) -> StreamImage:
        """Return the stream, once all steps are done."""
        return StreamImage(self._entries, self._counters, self._groups, self._keys)


def read_payload(payload: bytes, size_bytes_max: int) -> StreamImage:
    """Return the stream of a payload.

    Args:
        payload: what DUMP replied.
        size_bytes_max: of each of its strings.

    Raises:
        WrongFooter: the version or the checksum is wrong.
        NoStream: the payload is of another type.
        RdbError: its bytes make no sense.
    """
    reader = PayloadReader(payload, size_bytes_max)
    for _ in reader.steps():
        pass
    return reader.image


def write_payload(image: StreamImage, version: int) -> Iterator[bytes]:
    """Yield the parts of the payload of a stream; the last one is the footer.

    Args:
        image: the stream.
        version: of RDB, as Redis numbers them.
    """
    kind = stream_type(version)
    parts = bytes((kind,))
    yield parts
    checksum = checksum_of(parts)
    for part in write_stream(image, kind):
        checksum = checksum_of(part, checksum)
        yield part
    footer = version.to_bytes(_VERSION_BYTES, "little")
    yield footer + checksum_of(footer, checksum).to_bytes(_CHECKSUM_BYTES, "little")
