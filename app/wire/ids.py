"""Ids and cursors as clients write them.

Stricter than the engine's parser, which is as lax as Redis: here an id is digits, a dash, digits.
`field` is the place of the text, as a JSON pointer that starts with `/body`, `/query` or `/path`.
"""

import re
from collections.abc import Sequence
from typing import Annotated

from pydantic import WithJsonSchema

from headgate.app.wire.problems import GatewayError
from headgate.engine.entry import MAX_ID, MIN_ID, EntryId, IdRequest, PartialId, make_ids
from headgate.engine.errors import InvalidId
from headgate.engine.limits import U64_MAX
from headgate.engine.patterns import PatternCursor
from headgate.engine.requests.entries import From

_FORM = "[0-9]{1,20}(-[0-9]{1,20})?"


def _text(pattern: str) -> WithJsonSchema:
    """Tell a pattern in the document. It is checked below: `invalid_id` is a problem of its own."""
    return WithJsonSchema({"type": "string", "pattern": f"^({pattern})$"})


AnId = Annotated[str, _text(_FORM)]
NewIdText = Annotated[str, _text(rf"\*|[0-9]{{1,20}}-\*|{_FORM}")]
BoundText = Annotated[str, _text(rf"[-+]|\(?{_FORM}")]
AfterText = Annotated[str, _text(rf"[$+]|{_FORM}")]
FromText = Annotated[str, _text(rf">|{_FORM}")]
StartText = Annotated[str, _text(rf"\$|{_FORM}")]
EtagText = Annotated[str, _text(rf'"?{_FORM}"?')]

_ID = re.compile(r"([0-9]{1,20})(?:-([0-9]{1,20}))?")
_PLAIN_IDS = re.compile(r"[0-9]{1,19}-[0-9]{1,19}(?: [0-9]{1,19}-[0-9]{1,19})*+")
_SHOWN_MAX = 64
"""Characters of a text that is told again."""
_PARTIAL_ID = re.compile(r"([0-9]{1,20})-\*")


def parse_id(text: str, *, field: str, missing_seq: int = 0) -> EntryId:
    """Read an entry id, `ms-seq` or `ms`. Raises GatewayError."""
    match = _ID.fullmatch(text)
    if match is None:
        raise _not_an_id(text, field)
    ms, seq = int(match[1]), missing_seq if match[2] is None else int(match[2])
    if ms > U64_MAX or seq > U64_MAX:
        raise _not_an_id(text, field)
    return EntryId(ms, seq)


def parse_etag(text: str) -> EntryId:
    """Read `If-Match`: an id, in quotes or not. Raises GatewayError."""
    return parse_id(text.strip().strip('"'), field="/header/If-Match")


def parse_ids(texts: Sequence[str], *, field: str = "/body/ids") -> list[EntryId]:
    """Read a list of entry ids; an error points at the wrong one."""
    ids = plain_ids(" ".join(texts), len(texts))
    if ids is not None:
        return ids
    return [parse_id(text, field=f"{field}/{index}") for index, text in enumerate(texts)]


def plain_ids(joined: str, count: int) -> list[EntryId] | None:
    """Read ids separated by blanks at once, which is faster; None unless all are plain."""
    is_one_each = joined.count(" ") == count - 1
    if is_one_each and _PLAIN_IDS.fullmatch(joined) is not None:
        return make_ids(map(int, joined.replace("-", " ").split()))
    return None


def parse_bound(text: str, *, field: str, is_end: bool = False) -> EntryId:
    """Read one end of a range: an id, `(id` exclusive, `-` or `+`.

    A bare `+` in a query string arrives as a blank, so that is read as `+`. Raises GatewayError,
    also if the bound excludes the last possible id.
    """
    if text in ("+", " "):
        return MAX_ID
    if text == "-":
        return MIN_ID
    exclusive = text.startswith("(")
    missing_seq = U64_MAX if is_end and not exclusive else 0
    bound = parse_id(text.removeprefix("("), field=field, missing_seq=missing_seq)
    if not exclusive:
        return bound
    beyond = bound.previous() if is_end else bound.next()
    if beyond == bound:
        raise GatewayError("invalid_id", "no id exists beyond this one", pointer=field)
    return beyond


def parse_after(text: str, *, field: str) -> EntryId | From:
    """Read a cursor: an id, `$` for "from now on", or `+` for the last entry."""
    if text == "$":
        return From.NOW
    if text in ("+", " "):
        return From.LAST
    return parse_id(text, field=field)


def parse_pattern_after(text: str, *, field: str) -> PatternCursor | None:
    """Read a cursor of a pattern, an id for all streams, or `$` (None)."""
    if text == "$":
        return None
    if _ID.fullmatch(text) is not None:
        return PatternCursor(start=parse_id(text, field=field))
    try:
        return PatternCursor.parse(text)
    except InvalidId:
        raise GatewayError("invalid_id", "should be a cursor of a pattern", pointer=field) from None


def parse_new_id(text: str, *, field: str) -> IdRequest:
    """Read the id of an append: `*`, `ms-*`, or an explicit one."""
    if text == "*":
        return None
    if partial := _PARTIAL_ID.fullmatch(text):
        return PartialId(parse_id(partial[1], field=field).ms)
    return parse_id(text, field=field)


def parse_group_start(text: str, *, field: str = "/body/start") -> EntryId | None:
    """Read a group's position: an id, or `$` (None)."""
    return None if text == "$" else parse_id(text, field=field)


def _not_an_id(text: str, field: str) -> GatewayError:
    shown = text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…"
    detail = f"{shown!r} is not an entry id: use the form ms-seq, such as 1718000000000-0"
    return GatewayError("invalid_id", detail, pointer=field)
