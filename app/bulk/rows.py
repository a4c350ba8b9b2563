"""Rows of a table as an Arrow stream, page by page."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Collection
from functools import partial
from typing import TYPE_CHECKING

from headgate.app.bulk.ranges import broken_off
from headgate.app.wire.problems import GatewayError
from headgate.engine.errors import StreamError
from headgate.engine.replies import TablePage
from headgate.engine.threads import Threads

if TYPE_CHECKING:
    from headgate.app.bulk.row_encoder import RowEncoder


async def arrow_rows(
    stream: bytes,
    pages: AsyncIterator[TablePage],
    threads: Threads,
    names: Collection[bytes] | None,
) -> AsyncGenerator[bytes, None]:
    """Yield pages of rows as an Arrow stream, with all fields or those that are named.

    If the walk cannot go on, the answer breaks off, so that nobody takes half of it for the whole.
    """
    encoder = await threads.call_if_awaited(partial(_encoder, names))
    try:
        async for page in pages:
            for piece in await threads.call_if_awaited(partial(encoder.encode, page.rows)):
                yield piece
        for piece in await threads.call_if_awaited(encoder.finish):
            yield piece
    except (StreamError, GatewayError) as error:
        raise broken_off(stream, error) from None


def _encoder(names: Collection[bytes] | None) -> RowEncoder:
    from headgate.app.bulk.row_encoder import RowEncoder  # noqa: PLC0415 - it needs pyarrow

    return RowEncoder(names)
