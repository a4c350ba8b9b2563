"""Plain entries: fields of text and nothing else, which is what nearly every batch is made of.

They are read in one go and make no model each. Whatever is not plain, or wrong, is not read here:
then the models say what it means, or what is the matter with it.
"""

from collections.abc import Iterable, Iterator
from itertools import chain

import msgspec

from app.structure import MEMBERS_MAX
from app.turns import Turn
from engine.entry import Draft, make_draft


class _PlainEntry(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    fields: dict[str, str]


_PIECE_BYTES = 2**17
"""A body is read in pieces of about this size: a millisecond or two each."""

_items = msgspec.json.Decoder(list[msgspec.Raw]).decode
_lines = msgspec.json.Decoder(_PlainEntry).decode_lines
_array = msgspec.json.Decoder(list[_PlainEntry]).decode


async def plain_drafts_in_turns(body: bytes, *, is_lines: bool) -> list[Draft] | None:
    """Return what `plain_drafts` does; while a large body is read, others come between."""
    if len(body) <= _PIECE_BYTES:
        return plain_drafts(body, is_lines=is_lines)
    turn, drafts = Turn(), list[Draft]()
    try:
        for piece in _pieces_of_lines(body) if is_lines else _pieces_of_array(body):
            found = plain_drafts(piece, is_lines=is_lines)
            if found is None:
                return None
            drafts += found
            await turn.pause()
    except (msgspec.DecodeError, RecursionError):
        return None
    return drafts


def _pieces_of_lines(body: bytes) -> Iterator[bytes]:
    start = 0
    while start < len(body):
        end = body.find(b"\n", start + _PIECE_BYTES) + 1 or len(body)
        yield body[start:end]
        start = end


def _pieces_of_array(body: bytes) -> Iterator[bytes]:
    """Yield arrays with some of the items each.

    Raises:
        msgspec.DecodeError: it is no array.
    """
    for items in _some(_items(body)):
        yield b"[" + b",".join(items) + b"]"


def _some(items: Iterable[msgspec.Raw]) -> Iterator[list[msgspec.Raw]]:
    taken, size_bytes = list[msgspec.Raw](), 0
    for item in items:
        taken.append(item)
        size_bytes += len(item)
        if size_bytes >= _PIECE_BYTES:
            yield taken
            taken, size_bytes = [], 0
    if taken:
        yield taken


def plain_drafts(body: bytes, *, is_lines: bool) -> list[Draft] | None:
    """Return the entries of a body.

    Args:
        body: a JSON array of entries, or one entry per line.
        is_lines: it is lines.

    Returns:
        None, unless all of them are plain and as they should be.
    """
    try:
        entries = _lines(body) if is_lines else _array(body)
        if is_lines and len(entries) != body.count(b"\n") + (not body.endswith(b"\n")):
            return None  # there are empty lines
        drafts = []
        for entry in entries:
            fields = entry.fields
            if not 0 < len(fields) <= MEMBERS_MAX:
                return None
            texts = chain.from_iterable(fields.items())
            drafts.append(make_draft((None, tuple(map(str.encode, texts)))))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return drafts
