"""Behind: the answers of a standby say how old they may be."""

from __future__ import annotations

from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headgate.engine.replies import BucketStatus, LeaderRole

HEADER = b"headgate-behind-ms"


class Behind:
    """ASGI middleware: adds `Headgate-Behind-Ms` to what a standby answers."""

    def __init__(self, app: ASGIApp, bucket: Callable[[], BucketStatus | None]) -> None:
        """Serve `app`, with the state of the bucket."""
        self._app, self._bucket = app, bucket

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        bucket = self._bucket()
        if scope["type"] != "http" or bucket is None or bucket.role is not LeaderRole.STANDBY:
            await self._app(scope, receive, send)
            return

        async def send_with_age(message: Message) -> None:
            bucket = self._bucket()
            if message["type"] == "http.response.start" and bucket is not None:
                known = "unknown" if bucket.behind_ms is None else str(bucket.behind_ms)
                message["headers"] = [*message["headers"], (HEADER, known.encode())]
            await send(message)

        await self._app(scope, receive, send_with_age)
