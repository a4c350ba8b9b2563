"""Plain entries: fields of text and nothing else, which is what nearly every batch is made of.

They are read in one go and make no model each. Whatever is not plain, or wrong, is not read here:
then the models say what it means, or what is the matter with it.
"""

from itertools import chain

import msgspec

from app.structure import MEMBERS_MAX
from engine.entry import Draft, make_draft


class _PlainEntry(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    fields: dict[str, str]


_lines = msgspec.json.Decoder(_PlainEntry).decode_lines
_array = msgspec.json.Decoder(list[_PlainEntry]).decode


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
