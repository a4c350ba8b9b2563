"""The least a gateway can do on this server: a body, the engine, an id. Nothing is checked.

What the gateway takes beyond this is spent on what is not here: paths and parameters, who may ask,
whether the body is as it should be, problems, metrics. `LEAST_DATA_DIR` says where it keeps data.
"""

import asyncio
import os
from typing import Any

import msgspec

from headgate.app.backends.port import Backend
from headgate.app.gateway.backends import open_backend
from headgate.app.settings import Settings
from headgate.engine.entry import Draft
from headgate.engine.requests.entries import Add
from tests.bench.servers import Message

STREAM = b"bench"


class _Body(msgspec.Struct):
    fields: dict[str, str]


_decode = msgspec.json.Decoder(_Body).decode


class LeastApp:
    """ASGI app: every request appends an entry."""

    def __init__(self) -> None:
        self._backend: Backend

    async def __call__(self, scope: Message, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        message = await receive()
        assert not message["more_body"]
        fields = _decode(message["body"]).fields
        flat = tuple([text.encode() for pair in fields.items() for text in pair])
        [entry_id] = (await self._backend.perform(Add(STREAM, [Draft(None, flat)]))).ids
        body = b'{"id":"%d-%d"}' % entry_id
        length = b"%d" % len(body)
        headers = [(b"content-type", b"application/json"), (b"content-length", length)]
        await send({"type": "http.response.start", "status": 201, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _live(self, receive: Any, send: Any) -> None:
        await receive()
        self._backend = open_backend(Settings(data_dir=os.environ["LEAST_DATA_DIR"]))
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._backend.run())
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await self._backend.close()
        await send({"type": "lifespan.shutdown.complete"})


app = LeastApp()
