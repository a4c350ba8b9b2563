"""Tables: the latest entry of each key of a stream that has a `key_field`."""

from __future__ import annotations

from typing import NamedTuple

from headgate.engine.entry import EntryId, Fields
from headgate.engine.replies import Added, RowRead, TablePage
from headgate.engine.requests import Request
from headgate.engine.requests.idempotency import Idempotent


class ReadTable(Request[TablePage], frozen=True):
    """Return up to `limit` rows whose keys begin with `prefix`, in byte order, after `after_key`.

    With `as_of`, an id that an earlier page has told, the rows are as they were then. The rows have
    about `size_bytes_max` bytes, but the first one is always returned. With a filter, there may be
    fewer rows, or none, although more follow.

    StreamNotFound; NotATable; TableBehind; WalkOver if it is no longer known how the table was.
    """

    stream: bytes
    prefix: bytes = b""
    after_key: bytes | None = None
    limit: int = 100
    as_of: EntryId | None = None
    filters: str | None = None  # as JSON
    size_bytes_max: int | None = None


class ReadRow(Request[RowRead], frozen=True):
    """Return the row of a key, if there is one. StreamNotFound; NotATable; TableBehind."""

    stream: bytes
    key: bytes


class RowCondition(NamedTuple):
    """The row that a change expects."""

    id: EntryId | None = None  # of its entry; None: there is no row


class PutRow(Request[Added], frozen=True):
    """Append an entry that is the row of a key from now on. The field of the key is added.

    StreamNotFound; NotATable; TableBehind; RowChanged if the row is not as expected; and what `Add`
    raises.
    """

    stream: bytes
    key: bytes
    fields: Fields
    condition: RowCondition | None = None
    idempotent: Idempotent | None = None


class DeleteRow(Request[Added | None], frozen=True):
    """Append an entry that removes the row of a key; None if there is no row.

    Raises what `PutRow` does.
    """

    stream: bytes
    key: bytes
    condition: RowCondition | None = None
    idempotent: Idempotent | None = None
