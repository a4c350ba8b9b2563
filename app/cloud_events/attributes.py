"""Attributes: the rules for what an event says beside its data.

All of them are text here. An attribute is a field of an entry, and the binary mode has no other
types, so a number and a Boolean of the JSON format become their canonical text.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from headgate.engine.entry import EntryId

VERSION = "1.0"

CONTENT_TYPE = "datacontenttype"
"""The attribute that is no header of its own: `Content-Type` says it."""

ENTRY_ID = "headgateid"
"""Extension of each event that is read: the id of its entry."""

DELIVERIES = "headgatedeliveries"
"""Extension of each event that a group reads: the number of its deliveries."""

OWN = frozenset({ENTRY_ID, DELIVERIES})
"""The gateway says these of an event that is read; of one that is appended they are left out."""

REQUIRED = ("id", "source", "specversion", "type")

ATTRIBUTES_MAX = 100
INTEGER_MAX = 2**31 - 1
VALUE_LENGTH_MAX = 8_192
NAME_LENGTH_MAX = 64
"""The specification recommends 20 at most, and asks nobody to refuse more."""

_NAME = re.compile(rf"[a-z0-9]{{1,{NAME_LENGTH_MAX}}}")
_RESERVED = frozenset({"data"})

# Controls, surrogates and noncharacters, which a string of CloudEvents does not have.
_NO_CHARACTER = re.compile(
    "[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef"
    + "".join(chr((plane << 16) + end) for plane in range(17) for end in (0xFFFE, 0xFFFF))
    + "]"
)
_MEDIA_TYPE = re.compile(r"[!#-'*+.^-~\w-]+/[!#-'*+.^-~\w-]+[ \t]*(;[\x20-\x7e\t]*)?", re.ASCII)
_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,30})?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


class AttributeFault(NamedTuple):
    """The first thing that is wrong with the attributes of an event."""

    name: str | None  # of the attribute; None: it is about all of them
    text: str


def fault_in(attributes: Mapping[str, str], content_type: str | None) -> AttributeFault | None:
    """Return the first fault of the attributes of an event, if there is one.

    Args:
        attributes: without the content type.
        content_type: of the data, if it is said.
    """
    if len(attributes) > ATTRIBUTES_MAX:
        return AttributeFault(None, f"at most {ATTRIBUTES_MAX} attributes")
    for name in REQUIRED:
        if not attributes.get(name):
            return AttributeFault(name, "each event has it, and it is not empty")
    if attributes["specversion"] != VERSION:
        return AttributeFault("specversion", f"should be {VERSION}")
    for name, value in attributes.items():
        text = _fault_of(name, value)
        if text is not None:
            return AttributeFault(name[:NAME_LENGTH_MAX], text)
    if "time" in attributes and not _is_time(attributes["time"]):
        return AttributeFault("time", "should be a time as of RFC 3339, with an offset")
    if content_type is not None and not _is_media_type(content_type):
        return AttributeFault(CONTENT_TYPE, "should be a media type, such as application/json")
    return None


def _fault_of(name: str, value: str) -> str | None:
    if _NAME.fullmatch(name) is None or name in _RESERVED:
        return f"an attribute's name is of a-z and 0-9, {NAME_LENGTH_MAX} at most, and not `data`"
    if len(value) > VALUE_LENGTH_MAX:
        return f"an attribute has {VALUE_LENGTH_MAX} characters at most"
    if _NO_CHARACTER.search(value) is not None:
        return "an attribute has no control characters, surrogates or noncharacters"
    if not value and name in ("dataschema", "subject"):
        return "if it is there, it is not empty"
    return None


def _is_media_type(text: str) -> bool:
    return len(text) <= VALUE_LENGTH_MAX and _MEDIA_TYPE.fullmatch(text) is not None


def _is_time(text: str) -> bool:
    if _TIME.fullmatch(text) is None:
        return False
    try:
        datetime.fromisoformat(text.upper())
    except ValueError:
        return False
    return True


def time_of(entry_id: EntryId) -> str | None:
    """Return the time in an id as an attribute; None, if it is not of this era."""
    try:
        moment = datetime.fromtimestamp(entry_id.ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):  # somebody has chosen the id
        return None
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
