"""Texts: events as JSON, with other tasks in between, however many and long they are."""

from base64 import b64encode
from collections.abc import Iterable, Iterator

import msgspec

from headgate.app.cloud_events.data import BASE64, PLAIN_BYTES_MAX
from headgate.app.cloud_events.event import Event
from headgate.engine.threads.turn import this_turn

_PORTION_BYTES = 3 * 2**18
"""Bytes that become base64 at once: whole groups of three."""

_encode = msgspec.json.Encoder().encode


async def text_in_turns(event: Event) -> bytes:
    """Return an event as JSON."""
    return b"".join(await _in_turns([event], b"", b""))


async def batch_in_turns(events: Iterable[Event]) -> bytes:
    """Return events as a JSON array; they are made one by one."""
    return b"".join(await _in_turns(events, b"[", b"]"))


async def _in_turns(events: Iterable[Event], begin: bytes, end: bytes) -> list[bytes]:
    turn, parts = this_turn(), [begin]
    for number, event in enumerate(events):
        if number:
            parts.append(b",")
        for portion in _portions(event):
            parts.append(portion)
            if turn.is_over:
                await turn.pause()
    return [*parts, end]


def _portions(event: Event) -> Iterator[bytes]:
    """Yield the JSON of an event, that of long data in several portions."""
    data = event.data
    if data is None or len(data) <= PLAIN_BYTES_MAX:
        yield _encode(event.structured())
        return
    without = _encode(event._replace(data=None).structured())
    yield b'%b,"%b":"' % (without.removesuffix(b"}"), BASE64.encode())
    view = memoryview(data)
    for begin in range(0, len(data), _PORTION_BYTES):
        yield b64encode(view[begin : begin + _PORTION_BYTES])
    yield b'"}'
