"""Writers whose appends count once, however often they are sent (5.2.1).

A producer's epoch and number are an attribute of the stream, which changes with the append.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from headgate.app.wire.problems import GatewayError
from headgate.engine.errors import LimitReached
from headgate.engine.limits import ATTRIBUTE_BYTES, ATTRIBUTES_BYTES_MAX, ATTRIBUTES_MAX
from headgate.engine.requests.idempotency import owner_prefix

PRODUCER = b"durable-stream:producer:"
"""Attributes that begin so belong to the producer whose id follows."""

CLOSED_BY = b"durable-stream:closed-by"
"""Attribute: the append of a producer that has closed the stream."""

ID = "Producer-Id"
EPOCH = "Producer-Epoch"
SEQ = "Producer-Seq"
EXPECTED_SEQ = "Producer-Expected-Seq"
RECEIVED_SEQ = "Producer-Received-Seq"

_ID_BYTES_MAX = 256
_NUMBER = re.compile(r"[0-9]{1,16}")
_NUMBER_MAX = 2**53 - 1
_IDLE_MS = 86_400_000
"""Producers that have written nothing for so long are forgotten when there are too many."""


class ProducerState(NamedTuple):
    epoch: int
    seq: int
    at_ms: int = 0  # when it last wrote

    @classmethod
    def decode(cls, text: bytes | None) -> "ProducerState | None":
        return None if text is None else cls(*map(int, text.split()))

    def encoded(self) -> bytes:
        return b"%d %d %d" % self


class Append(NamedTuple):
    producer: bytes
    epoch: int
    seq: int

    @property
    def attribute(self) -> bytes:
        return PRODUCER + self.producer

    @property
    def owner_prefix(self) -> bytes:
        """Return the common prefix of the owner's producers; empty without an owner."""
        return owner_prefix(self.producer)

    @property
    def mark(self) -> bytes:
        return b"%d %d %b" % (self.epoch, self.seq, self.producer)


def parse_producer(headers: Mapping[str, str]) -> Append | None:
    """Read the producer of a request, or None if it names none; raises GatewayError."""
    texts = [headers.get(name) for name in (ID, EPOCH, SEQ)]
    producer, epoch, seq = texts
    if producer is None and epoch is None and seq is None:
        return None
    if producer is None or epoch is None or seq is None:
        missing = next(name for name, text in zip((ID, EPOCH, SEQ), texts, strict=True) if not text)
        text = "the three headers of a producer must be given together"
        raise GatewayError("malformed", text, pointer=f"/header/{missing}")
    if not 0 < len(producer.encode()) <= _ID_BYTES_MAX:
        text = f"should have 1 to {_ID_BYTES_MAX} bytes"
        raise GatewayError("malformed", text, pointer=f"/header/{ID}")
    return Append(producer.encode(), _number(epoch, EPOCH), _number(seq, SEQ))


def _number(text: str, name: str) -> int:
    if _NUMBER.fullmatch(text) is None or int(text) > _NUMBER_MAX:
        fault = f"should be a whole number up to {_NUMBER_MAX}, in plain decimal"
        raise GatewayError("malformed", fault, pointer=f"/header/{name}")
    return int(text)


class ProducerRefusal(GatewayError):
    def __init__(self, error: GatewayError, headers: dict[str, str]) -> None:
        super().__init__(error.code, str(error), pointer=error.pointer)
        self.headers = headers


def check_epoch(append: Append, place: ProducerState | None) -> None:
    """Raise ProducerRefusal if another producer of the same name has replaced this one."""
    if place is not None and append.epoch < place.epoch:
        text = f"The producer has started epoch {place.epoch}; epoch {append.epoch} is over."
        headers = {EPOCH: str(place.epoch)}
        raise ProducerRefusal(GatewayError("producer_fenced", text), headers)


def check_order(append: Append, place: ProducerState | None) -> bool:
    """Check that an append is its producer's next; return True if it was made before.

    Raises ProducerRefusal if others must come before it, and GatewayError if a new epoch does not
    begin with 0.
    """
    if place is None or append.epoch > place.epoch:
        expected = 0
        if place is not None and append.seq:
            text = "a new epoch must start with 0"
            raise GatewayError("malformed", text, pointer=f"/header/{SEQ}")
    else:
        expected = place.seq + 1
    if append.seq < expected:
        return True
    if append.seq > expected:
        text = f"The producer must send {expected} next, not {append.seq}."
        headers = {EXPECTED_SEQ: str(expected), RECEIVED_SEQ: str(append.seq)}
        raise ProducerRefusal(GatewayError("out_of_sequence", text), headers)
    return False


def check_share(append: Append, attributes: Mapping[bytes, bytes]) -> None:
    """Raise LimitReached if an owner's producers take half of the attributes' room."""
    prefix = PRODUCER + append.owner_prefix
    places = [each for each in attributes.items() if each[0].startswith(prefix)]
    size_bytes = sum(ATTRIBUTE_BYTES + len(name) + len(place) for name, place in places)
    if len(places) >= ATTRIBUTES_MAX // 2 or size_bytes >= ATTRIBUTES_BYTES_MAX // 2:
        raise LimitReached("producers of one owner in this stream", len(places))


def idle_among(attributes: Mapping[bytes, bytes], now_ms: int) -> list[bytes]:
    places = (
        (name, ProducerState.decode(text))
        for name, text in attributes.items()
        if name.startswith(PRODUCER)
    )
    return [name for name, place in places if place is not None and place.at_ms < now_ms - _IDLE_MS]
