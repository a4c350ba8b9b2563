"""Lines and events come whole to readers that also end a line where Unicode does."""

import json

import httpx
import pytest

from tests.api.conftest import Live

VALUE = "a\u0085b\u2028c\u2029d"
EVENTS, NDJSON = {"Accept": "text/event-stream"}, {"Accept": "application/x-ndjson"}


@pytest.mark.parametrize(
    ("url", "headers"),
    [
        ("/v1/streams/orders/entries", NDJSON),
        ("/v1/streams/orders/entries?after=0", NDJSON),
        ("/v1/streams/orders/events?after=0", EVENTS),
        ("/v1/events?match=ord*&after=0", EVENTS),
        ("/v1/streams/orders/groups/billing/events", EVENTS),
        ("/v1/stream/chat?offset=-1&live=sse", EVENTS),
    ],
)
async def test_no_character_but_a_line_end_ends_a_line(
    live: Live, url: str, headers: dict[str, str]
) -> None:
    await live.create_group("orders", "billing")
    await live.append("orders", VALUE)
    sent = json.dumps({"v": VALUE}, ensure_ascii=False).encode()
    json_type = {"Content-Type": "application/json"}
    await live.http.put("/v1/stream/chat", content=b"[%b]" % sent, headers=json_type)

    async with (
        httpx.AsyncClient(base_url=live.url, timeout=10) as http,
        http.stream("GET", url, headers=headers) as answer,
    ):
        async for line in answer.aiter_lines():
            if '"v"' in line:
                break
    item = json.loads(line.removeprefix("data:"))
    fields = item[0] if isinstance(item, list) else item["fields"]
    assert fields["v"] == VALUE
