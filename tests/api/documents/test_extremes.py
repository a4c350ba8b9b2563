"""Answers at the ends of their ranges fit the documents: the client of the suites checks each."""

import pytest

from headgate.engine.entry import MAX_ID, EntryId
from tests.api.conftest import Live
from tests.api.live.frames import frames_of

pytestmark = pytest.mark.asyncio(loop_scope="session")

LAST = EntryId(MAX_ID.ms, MAX_ID.seq - 1)
ORDERS = "/v1/streams/orders"
BILLING = f"{ORDERS}/groups/billing"


async def test_answers_with_the_greatest_ids_and_numbers_fit_the_documents(shared: Live) -> None:
    http = shared.http
    await shared.create_group("orders", "billing")
    for entry_id in (LAST, MAX_ID):
        body = {"id": str(entry_id), "fields": {"v": "1"}, "ttl_ms": 90 * 24 * 3_600_000}
        answer = await http.post(f"{ORDERS}/entries", json=body)
        assert answer.status_code == 201, answer.text
    await shared.read_group("orders", "billing", "me")

    async with frames_of(shared, f"{ORDERS}/ws?after=0") as frames:
        await frames.next("subscribed")
        assert await frames.ids(2) == [str(LAST), str(MAX_ID)]
    for path in (
        *(ORDERS, f"{ORDERS}?full=true", "/v1/streams", f"{ORDERS}/entries/{MAX_ID}"),
        *(f"{ORDERS}/entries", f"{ORDERS}/entries?after={LAST}", f"{ORDERS}/entries?order=desc"),
        *(BILLING, f"{BILLING}/pending", f"{BILLING}/consumers", f"{ORDERS}/groups"),
    ):
        assert (await http.get(path)).status_code == 200, path
    await http.post(f"{ORDERS}/trim", json={"min_id": str(MAX_ID)})
    gap = (await http.get(f"{ORDERS}/entries?after=1")).json()["gap"]
    assert gap == {"from": "1-0", "to": str(LAST)}
    assert (await shared.outcomes("ack", "orders", "billing", [str(MAX_ID)], "me")) == ["acked"]
