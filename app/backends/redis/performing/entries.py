"""Entries: append, read, delete and trim them."""

from __future__ import annotations

from headgate.app.backends.redis.client import Client
from headgate.app.backends.redis.faults import as_stream_errors, read_id
from headgate.app.backends.redis.library import Effect
from headgate.app.backends.redis.performing import Performers
from headgate.engine.replies import Added
from headgate.engine.requests.entries import Add


async def add(client: Client, request: Add) -> Added:
    """Append entries (XADD)."""
    fields = [part for draft in request.drafts for part in draft.fields]
    with as_stream_errors(request.stream):
        ids = await client.call(
            Effect.WRITE, b"add", request.stream, int(request.create_stream), *fields
        )
    return Added([read_id(text) for text in ids], is_repeat=False)


PERFORMERS: Performers = {Add: add}
