"""Changes of a table: what comes of the rows and their changes that the gateway sends."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from headgate.client.calls import Calls
from headgate.client.subscription import ALL_ROWS_CAME, ALL_ROWS_COME
from headgate.client.table import Table


def row(key: str, entry_id: str) -> dict[str, Any]:
    return {"key": key, "id": entry_id, "fields": {"k": key}}


async def test_a_row_that_does_not_come_again_and_is_removed_then_goes_once() -> None:
    removal = {"key": "a", "id": "4-0", "fields": None}
    sent = [ALL_ROWS_COME, row("a", "1-0"), row("b", "2-0"), ALL_ROWS_CAME]
    again = [ALL_ROWS_COME, row("b", "3-0"), removal, removal, ALL_ROWS_CAME]

    async def items() -> AsyncGenerator[Any]:
        for item in [*sent, *again]:
            yield item

    @asynccontextmanager
    async def follow(_: str, __: int) -> AsyncIterator[AsyncGenerator[Any]]:
        yield items()

    table = Table(Calls.__new__(Calls), "/v1/streams/s", follow)
    changes = [(change.key, change.id, change.fields is None) async for change in table.changes()]
    assert changes == [
        ("a", "1-0", False),
        ("b", "2-0", False),
        ("b", "3-0", False),
        ("a", "4-0", True),
    ]
