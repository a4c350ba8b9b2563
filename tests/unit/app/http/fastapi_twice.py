"""The same routes on FastAPI as it is and on ours, to be asked the same."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from headgate.app.auth.needs import OPEN
from headgate.app.http.layers import put_together
from headgate.app.http.operation import Operation
from headgate.app.main import create_app
from headgate.app.settings import MEMORY, Settings

Build = Callable[[FastAPI, Callable[..., APIRouter]], None]
"""Adds to an app, with routers that are made by the second argument."""

_COMPARED = ("allow", "content-type", "www-authenticate")


class OpenOperation(Operation):
    """An operation of ours that everybody may ask, as stock FastAPI has it."""

    needs = OPEN


@dataclass
class Twice:
    """Two apps; what is asked of one is asked of the other."""

    stock: FastAPI
    ours: FastAPI
    clients: list[httpx.AsyncClient] = field(default_factory=list)

    async def ask(self, method: str, url: str, **options: Any) -> httpx.Response:
        """Return our answer, once it is the same as that of FastAPI as it is."""
        theirs, ours = [await client.request(method, url, **options) for client in self.clients]
        assert _shown(ours) == _shown(theirs)
        return ours

    async def get(self, url: str, **options: Any) -> httpx.Response:
        return await self.ask("GET", url, **options)


@asynccontextmanager
async def built_twice(build: Build) -> AsyncIterator[Twice]:
    """Build the same routes on both."""
    gateway = create_app(Settings(data_dir=MEMORY)).state.gateway
    stock, ours = FastAPI(redirect_slashes=False), FastAPI(redirect_slashes=False)
    for app, route_class in ((stock, APIRoute), (ours, OpenOperation)):
        build(app, lambda made=route_class, **options: APIRouter(route_class=made, **options))
    put_together(ours)
    twice = Twice(stock, ours)
    for app in (stock, ours):
        transport = httpx.ASGITransport(_with_state(app, gateway), raise_app_exceptions=False)
        twice.clients.append(httpx.AsyncClient(transport=transport, base_url="http://test"))
    try:
        yield twice
    finally:
        for client in twice.clients:
            await client.aclose()


def _with_state(app: ASGIApp, gateway: object) -> ASGIApp:
    """Return an app whose requests have a server's state."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, "state": {"gateway": gateway}}, receive, send)

    return serve


def _shown(answer: httpx.Response) -> tuple[int, str, dict[str, str]]:
    """Return the visible parts of an answer; the type of no content is no matter."""
    headers = {
        name: value
        for name, value in answer.headers.items()
        if name in _COMPARED or name.startswith("x-")
    }
    if not answer.content:
        headers.pop("content-type", None)
    return answer.status_code, answer.text, headers
