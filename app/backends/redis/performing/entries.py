"""Entries: append, read, delete, trim."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise, repeat

from headgate.app.backends.redis.client import Client
from headgate.app.backends.redis.faults import Fault, read_id
from headgate.app.backends.redis.library import Effect
from headgate.app.backends.redis.node import Word
from headgate.app.backends.redis.performing import Performers, by_function
from headgate.engine.entry import (
    MIN_ID,
    Draft,
    EntryId,
    IdRequest,
    PartialId,
    check_fields,
)
from headgate.engine.errors import Invalid
from headgate.engine.limits import (
    CHUNK_ENTRIES_MAX,
    TRIM_CHUNKS_DEFAULT,
    TRIM_ENTRIES_MAX,
)
from headgate.engine.replies import Added, Deletion
from headgate.engine.requests.entries import Add, Delete, Trim, TrimTo, check_trim

FIELDS_MAX = 3_500
"""Fields of one entry. A function of the server can append no more at once."""

_DELETED_AT_ONCE = 1_000


async def add(client: Client, request: Add) -> Added:
    """Append entries in order, all or none, and then trim (XADD)."""
    stream, drafts = request.stream, request.drafts
    if request.trim is not None:
        check_trim(request.trim, at=("trim",))
    check_drafts(drafts)
    is_plain = request.idempotent is None and request.expected_last_id is None
    if len(drafts) == 1 and is_plain and request.trim is None:
        words = _id_word(drafts[0].id), *drafts[0].fields
        may_create = request.create_stream
        added = await client.call(Effect.WRITE, "append", stream, *words, create_stream=may_create)
        return Added([read_id(added)], is_repeat=False)
    more = {
        "producers_max": client.options.keyspace.producers_max,
        "trim": None if request.trim is None else _bounded(request.trim),
    }
    is_repeat, first, *count = await client.perform(
        Effect.WRITE, request, *drafts_words(drafts), drafts=None, **more
    )
    if not count:
        return Added(list(map(read_id, first)), is_repeat=False)
    return Added(_run(first, *count), bool(is_repeat))


def _run(first: bytes, count: int) -> list[EntryId]:
    """Return an id and those that follow it."""
    if not count:
        return []
    following = accumulate(repeat(read_id(first), count), lambda before, _: before.next())
    return list(following)


def check_drafts(drafts: Sequence[Draft]) -> None:
    """Refuse entries that cannot be stored.

    Raises:
        Invalid: an entry has no fields, a name without a value, too many fields or bytes.
    """
    for index, (_, fields) in enumerate(drafts):
        check_fields(fields, index)
        if len(fields) > 2 * FIELDS_MAX:
            text = f"an entry has at most {FIELDS_MAX} fields with this backend"
            raise Invalid(text, location=("drafts", index, "fields"))


def drafts_words(drafts: Sequence[Draft]) -> list[Word]:
    """Return drafts as our functions take them: the kind of ids, the count, and each draft."""
    words: list[Word] = [_kind_of_ids([draft.id for draft in drafts]), len(drafts)]
    for wanted, fields in drafts:
        words += (_id_word(wanted), len(fields), *fields)
    return words


def _kind_of_ids(wanted: Sequence[IdRequest]) -> bytes:
    """Return `*` if the server gives all ids, `<` if all are given and ascend, else nothing."""
    if not any(wanted):  # an id is never false
        return b"*"
    ids = [entry_id for entry_id in wanted if isinstance(entry_id, EntryId)]
    is_whole = len(ids) == len(wanted)
    return b"<" if is_whole and all(low < high for low, high in pairwise(ids)) else b""


def _id_word(wanted: IdRequest) -> bytes:
    """Return the id that an append asks for, as a word."""
    if wanted is None:
        return b"*"
    if isinstance(wanted, PartialId):
        return b"%d-*" % wanted.ms
    return b"%d-%d" % wanted


def _bounded(to: TrimTo) -> TrimTo:
    """Return a trim with the number of entries that it may remove; None is without limit."""
    if not to.approximate:
        return to._replace(limit=None)
    limit = TRIM_CHUNKS_DEFAULT * CHUNK_ENTRIES_MAX if to.limit is None else to.limit
    return to._replace(limit=min(limit, TRIM_ENTRIES_MAX) or None)


async def trim(client: Client, request: Trim) -> int:
    """Remove the oldest entries (XTRIM). A long trim is done in parts."""
    check_trim(request.to)
    to = _bounded(request.to)
    removed, after = 0, b"%d-%d" % MIN_ID
    while after:
        try:
            count, after = await client.perform(
                Effect.FREE, request, to=to, removed=removed, after=after
            )
        except Fault as fault:
            if removed and fault.name == "StreamNotFound":  # it was deleted meanwhile
                break
            raise
        removed += count
    return removed


async def retain(client: Client, stream: bytes) -> None:
    """Trim a stream by its retention.

    Raises:
        Fault: the stream does not exist.
    """
    while await client.call(Effect.FREE, "retain", stream):
        pass


async def delete(client: Client, request: Delete) -> list[Deletion]:
    """Delete entries (XDEL, XDELEX). A long list is done in parts."""
    ids = request.ids
    outcomes: list[Deletion] = []
    while True:
        portion = ids[len(outcomes) : len(outcomes) + _DELETED_AT_ONCE]
        try:
            reply = await client.perform(Effect.FREE, request, ids=portion)
        except Fault as fault:
            if outcomes and fault.name == "StreamNotFound":  # it was deleted meanwhile
                return outcomes + [Deletion.NOT_FOUND] * (len(ids) - len(outcomes))
            raise
        outcomes += [Deletion(outcome.decode()) for outcome in reply]
        if len(outcomes) >= len(ids):
            return outcomes


PERFORMERS: Performers = {
    Add: by_function(add),
    Trim: by_function(trim),
    Delete: by_function(delete),
}
