"""Filters and columns of reads, as clients write them in a query."""

from __future__ import annotations

from itertools import chain
from typing import Annotated, Any, NamedTuple, Self

import msgspec
from pydantic import BeforeValidator
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import from_json, to_json

from headgate.app.wire.problems import GatewayError, pointer_to
from headgate.app.wire.structure import OneOf
from headgate.engine.entry import Entry
from headgate.engine.errors import Invalid
from headgate.engine.filters import Filter, read_filter

COLUMNS_MAX = 10_000

OF_GROUPS = "a group has its own filters: set `filters` in its policy"

_COLUMNS = "/query/columns"

FilterForm = Annotated[dict[str, Any] | list[Any], OneOf("should be an object or an array")]
"""A filter in a body or a frame."""


def _refuse(_: object) -> None:
    raise ValueError(OF_GROUPS)


NoFilter = Annotated[SkipJsonSchema[None], BeforeValidator(_refuse)]
"""The filter of a read for a group, which is told why it has none."""


class Selection(NamedTuple):
    """Which entries and fields a client wants."""

    filter: Filter | None = None  # None: all entries
    columns: tuple[bytes, ...] | None = None  # names of fields; None: all of them
    text: str | None = None  # the filter, as requests carry it
    archived: bool = False  # what is archived as well

    @classmethod
    def parse(cls, condition: str | None, columns: str | None) -> Self:
        """Parse two parameters; `columns` has comma-separated names, or is a JSON list."""
        return cls(
            None if condition is None else parse_filter(condition, pointer="/query/filter"),
            None if columns is None else _columns(columns),
            condition,
        )


EVERYTHING = Selection()
"""All entries, with all fields."""


def narrowed(entry: Entry, names: frozenset[bytes]) -> Entry:
    pairs = zip(entry.fields[::2], entry.fields[1::2], strict=True)
    return Entry(entry.id, tuple(chain(*(pair for pair in pairs if pair[0] in names))))


def parse_filter(text: str, *, pointer: str) -> Filter:
    """Parse a filter in JSON, or raise GatewayError with `pointer`."""
    try:
        return read_filter(text)
    except Invalid as error:
        place = pointer + pointer_to(*error.location)
        raise GatewayError("invalid_request", str(error), pointer=place) from None


def checked_text(text: str | None) -> str | None:
    """Return a query's filter in canonical JSON. Raises GatewayError."""
    if text is None:
        return None
    parse_filter(text, pointer="/query/filter")
    return msgspec.json.encode(msgspec.json.decode(text)).decode()


def filter_text(value: FilterForm | None, *, pointer: str) -> str | None:
    """Return the JSON of a filter in a body or frame, or raise GatewayError with `pointer`."""
    if value is None:
        return None
    text = to_json(value).decode()
    parse_filter(text, pointer=pointer)
    return text


def both(first: str | None, second: str | None, *, pointer: str) -> str | None:
    """Return the JSON of a filter for which both hold, or raise GatewayError with `pointer`."""
    if first is None or second is None:
        return first or second
    parts = [from_json(text) for text in (first, second)]
    conditions = chain(*(part if isinstance(part, list) else [part] for part in parts))
    text = to_json(list(conditions)).decode()
    parse_filter(text, pointer=pointer)
    return text


def _columns(text: str) -> tuple[bytes, ...]:
    names: Any = text.split(",") if text else []
    if text.startswith("["):
        try:
            names = from_json(text)
        except ValueError as error:
            raise _wrong(f"a list of names ({error})") from None
    if len(names) > COLUMNS_MAX:
        raise _wrong(f"at most {COLUMNS_MAX} names")
    if not all(isinstance(name, str) for name in names):
        raise _wrong("a list of strings")
    return tuple(name.encode(errors="surrogatepass") for name in names)


def _wrong(wanted: str) -> GatewayError:
    return GatewayError("invalid_request", f"should be {wanted}", pointer=_COLUMNS)
