"""Paging: lists come in pages, by name; a cursor says where the next page begins."""

import base64
import binascii
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple, Protocol, TypeVar

from fastapi import Depends, Query

from headgate.app.http.dependencies import LimitsDep, check_at_most
from headgate.app.wire.problems import GatewayError


class _Named(Protocol):
    @property
    def name(self) -> bytes: ...


T = TypeVar("T", bound=_Named)

CURSOR = Query(description="`next_cursor` of the page before.")


class Page(NamedTuple):
    """The part of a list in a request."""

    after: bytes | None
    limit: int

    @property
    def with_one_more(self) -> dict[str, Any]:
        """Return the arguments for the backend's list; one item more shows if a page follows."""
        return {"after": self.after, "limit": self.limit + 1}

    def of(self, items: Sequence[T]) -> tuple[Sequence[T], str | None]:
        """Return the items of the page and the next cursor."""
        page = items[: self.limit]
        return page, cursor_of(page[-1].name) if len(items) > self.limit else None


def page_after(cursor: str | None, limit: int) -> Page:
    """Return the page that a cursor asks for.

    Raises:
        GatewayError: the cursor is none of this gateway.
    """
    return Page(None if cursor is None else _name(cursor), limit)


def _as_many_as_allowed(
    limits: LimitsDep,
    limit: Annotated[
        int | None,
        Query(ge=1, description="Items of one page; as many as allowed unless given."),
    ] = None,
    cursor: Annotated[str | None, CURSOR] = None,
) -> Page:
    check_at_most(limit or 1, limits.read_entries_max, pointer="/query/limit")
    return page_after(cursor, limit or limits.read_entries_max)


PageDep = Annotated[Page, Depends(_as_many_as_allowed)]
"""A page of a list that was once told as a whole: it still is, if it is not too long."""


def cursor_of(name: bytes) -> str:
    """Return the cursor of the page behind a name."""
    return base64.urlsafe_b64encode(name).decode()


def _name(cursor: str) -> bytes:
    try:
        return base64.b64decode(cursor, altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        text = "not a cursor of this gateway"
        raise GatewayError("invalid_request", text, pointer="/query/cursor") from None
