"""Connection: a conversation with a client that leaves at the worst moment."""

import asyncio
import gc
import json
from typing import Any

from fastapi import WebSocket

from headgate.app.live.connection import Connection
from headgate.engine.entry import EntryId
from headgate.engine.requests import ClaimRequest
from tests.api.conftest import Live


async def test_a_client_may_leave_at_the_moment_its_entries_are_taken_over(live: Live) -> None:
    await live.create_group("orders", "billing")
    [entry_id] = await live.append("orders", "a")
    from_client: asyncio.Queue[Any] = asyncio.Queue()
    has_it = asyncio.Event()

    async def send(message: Any) -> None:
        if entry_id in message.get("text", ""):
            has_it.set()

    from_client.put_nowait({"type": "websocket.connect"})
    socket = WebSocket({"type": "websocket", "headers": []}, from_client.get, send)
    await socket.accept()
    subscribe = {"type": "subscribe", "sub": "1", "stream": "orders", "group": "billing"}
    text = json.dumps(subscribe | {"consumer": "first"})
    from_client.put_nowait({"type": "websocket.receive", "text": text})
    serving = asyncio.create_task(Connection(socket, live.gateway).serve())
    await has_it.wait()

    from_client.put_nowait({"type": "websocket.disconnect", "code": 1006})
    await asyncio.sleep(0)  # it is noticed; the conversation ends with the next turn of the loop
    ms, seq = map(int, entry_id.split("-"))
    ids, wanted = [EntryId(ms, seq)], ClaimRequest(0)
    await live.gateway.backend.claim(b"orders", b"billing", b"second", ids, wanted)
    await serving

    gc.collect()  # a coroutine that never began would be warned of, which is an error
    pending = await live.http.get("/v1/streams/orders/groups/billing/pending")
    assert [entry["consumer"] for entry in pending.json()["pending"]] == ["second"]
