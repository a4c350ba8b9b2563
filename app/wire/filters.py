"""Filters and columns of reads, as clients write them in a query."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

from pydantic_core import from_json

from headgate.app.wire.problems import GatewayError, pointer_to
from headgate.engine.errors import Invalid
from headgate.engine.filters.conditions import Filter
from headgate.engine.filters.reading import read_filter

COLUMNS_MAX = 10_000

_COLUMNS = "/query/columns"


class Selection(NamedTuple):
    """The part of entries that a client wants."""

    filter: Filter | None = None  # None: all entries
    columns: tuple[bytes, ...] | None = None  # names of fields; None: all of them

    @classmethod
    def parse(cls, condition: str | None, columns: str | None) -> Self:
        """Return the selection in a query.

        Args:
            condition: the parameter `filter`.
            columns: the parameter `columns`: names with commas between them, or a JSON list.

        Raises:
            GatewayError: one of them makes no sense.
        """
        return cls(
            None if condition is None else parse_filter(condition, pointer="/query/filter"),
            None if columns is None else _columns(columns),
        )


EVERYTHING = Selection()
"""All entries, with all fields."""


def parse_filter(text: str, *, pointer: str) -> Filter:
    """Return the filter that a client has written as JSON.

    Args:
        text: of the filter.
        pointer: where it stands in the request, for errors.

    Raises:
        GatewayError: it is no filter, or too large.
    """
    try:
        return read_filter(text)
    except Invalid as error:
        place = pointer + pointer_to(*error.location)
        raise GatewayError("invalid_request", str(error), pointer=place) from None


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
        raise _wrong("a list of texts")
    return tuple(name.encode(errors="surrogatepass") for name in names)


def _wrong(wanted: str) -> GatewayError:
    return GatewayError("invalid_request", f"should be {wanted}", pointer=_COLUMNS)
