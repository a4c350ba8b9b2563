"""Refuses JSON that is larger or deeper than any request, before it is validated.

Validation reports each mistake in a body. For a body with a million mistakes, nobody needs that
report, and it would cost more than the request.
"""

import re
from collections.abc import Collection
from itertools import accumulate
from typing import Any, NamedTuple

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema

from headgate.app.wire.problems import GatewayError, pointer_to

MEMBERS_MAX = 1024
"""Members of one object: an entry may have so many fields."""


ITEMS_MAX = 100_000
"""Items of one array: far more than any operation takes."""


SIZE_BYTES_MIN = 2 * MEMBERS_MAX
"""A text not longer than this has room for neither."""


DENSE_BYTES_MIN = 256 * 1024
"""A text not longer than this is read within 20 ms, whatever is in it."""

VALUES_MAX = 2 * ITEMS_MAX
"""Strings, and other values, of one body that is read at once: 200,000 take some 20 ms."""

LEVELS_MAX = 200
"""Levels of arrays and objects in each other: the parser of requests takes no more."""

_MARKS_MAX = 100_000
"""Brackets around others, and quotes around brackets: to look at them takes some 10 ms."""

_SQUARE = bytes.maketrans(b"{}", b"[]")
_NEITHER = bytes(set(range(256)) - set(b'[]{}"'))
_STEPS = {ord("["): 1, ord("]"): -1}

_HOLDERS = frozenset({dict, list})
"""A parser's types of objects and arrays."""

_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)


class OneOf(NamedTuple):
    """The error text for a value that has none of the types of a union.

    Pydantic reports an error for each type of the union, at a place that ends with its name.
    """

    text: str

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Return the schema of the union, with one error at the place of the value."""
        schema = handler(source)
        assert schema["type"] == "union"
        return {**schema, "custom_error_type": "one_of", "custom_error_message": self.text}


def check_dense(text: bytes) -> None:
    """Raise GatewayError for a JSON text with too many values, which would be slow to read."""
    if len(text) <= DENSE_BYTES_MIN:
        return
    quotes = text.count(b'"')
    is_dense = quotes > 2 * VALUES_MAX and quotes - text.count(b'\\"') > 2 * VALUES_MAX
    if not is_dense and text.count(b",") > VALUES_MAX:  # unless they stand in strings
        is_dense = _STRING.sub(b"", text).count(b",") > VALUES_MAX
    if is_dense:
        text_ = f"at most {VALUES_MAX} values are allowed"
        raise GatewayError("invalid_request", text_, pointer="/body")


def is_too_nested(text: bytes) -> bool:
    """Tell whether valid JSON is nested more deeply than other parsers may take.

    It is for text that is passed on as it is. Text with so many brackets that it would take long to
    look at them counts as such.
    """
    if text.count(b"[") + text.count(b"{") <= LEVELS_MAX:
        return False
    without_quotes_inside = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    brackets_and_quotes = without_quotes_inside.translate(_SQUARE, _NEITHER).replace(b'""', b"")
    if brackets_and_quotes.count(b'"') > _MARKS_MAX:
        return True
    brackets = b"".join(brackets_and_quotes.split(b'"')[::2])  # those outside of strings
    outer = brackets.replace(b"[]", b"")  # one level less, and far fewer
    if len(outer) > _MARKS_MAX:
        return True
    return 1 + max(accumulate(map(_STEPS.__getitem__, outer)), default=0) > LEVELS_MAX


def check_members(value: Any, pointer: str = "/body") -> None:
    """Raise GatewayError for too many members or items in a value, at any depth."""
    try:
        _check(value)
    except _TooManyError as error:  # the place is only needed now
        raise GatewayError("invalid_request", error.text, pointer=pointer + error.pointer) from None


class _TooManyError(Exception):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text
        self.pointer = ""  # from where it was raised down to what is too large


def _check(value: Any) -> None:
    items: Collection[Any] = ()
    if isinstance(value, list):
        if len(value) > ITEMS_MAX:
            raise _TooManyError(f"an array may have at most {ITEMS_MAX} items, not {len(value)}")
        items = value
    elif isinstance(value, dict):
        if len(value) > MEMBERS_MAX:
            raise _TooManyError(
                f"an object may have at most {MEMBERS_MAX} members, not {len(value)}"
            )
        items = value.values()
    if _HOLDERS.isdisjoint(map(type, items)):  # as nearly always, and quicker
        return
    for name, item in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(item, dict | list):
            try:
                _check(item)
            except _TooManyError as error:
                error.pointer = pointer_to(name) + error.pointer
                raise
