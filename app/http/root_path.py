"""Root path: where a proxy serves the gateway, if that is below another path.

Some proxies leave the root path in front of what they pass on, and others take it off. Both are
served. What is answered by operations never sees it. The router behind them sees it in front of
every path, as ASGI wants it, and so do its pages.
"""

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class WithoutRootPath:
    """ASGI middleware, the outermost: takes the root path off a request, and adds it to answers."""

    def __init__(self, app: ASGIApp, root_path: str) -> None:
        """Serve `app` below a path, such as `/streams`."""
        self._app = app
        self._text = root_path
        self._bytes = root_path.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        raw_path: bytes = scope["raw_path"]
        if raw_path == self._bytes or raw_path.startswith(self._bytes + b"/"):
            scope["path"] = scope["path"].removeprefix(self._text) or "/"
            scope["raw_path"] = raw_path.removeprefix(self._bytes) or b"/"

        async def send_with_root_path(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [self._header(*header) for header in message["headers"]]
            await send(message)

        await self._app(scope, receive, send_with_root_path)

    def _header(self, name: bytes, value: bytes) -> tuple[bytes, bytes]:
        """Return a header of an answer, a path of ours with the root path."""
        if name.lower() == b"location" and value.startswith(b"/"):
            return name, self._bytes + value
        return name, value


class WithRootPath:
    """ASGI middleware in front of a router: adds the root path to the path of each request."""

    def __init__(self, app: ASGIApp, root_path: str) -> None:
        """Serve `app` below a path."""
        self._app = app
        self._text = root_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] in ("http", "websocket"):
            paths = {
                "root_path": self._text,
                "path": self._text + scope["path"],
                "raw_path": self._text.encode() + scope["raw_path"],
            }
            scope = {**scope, **paths}
        await self._app(scope, receive, send)
