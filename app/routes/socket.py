"""Sockets: the multiplexed WebSocket, and two short forms that subscribe from the URL."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Annotated, Literal

from fastapi import WebSocketDisconnect
from pydantic import BaseModel, ConfigDict, Field
from starlette.routing import Match, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from headgate.app.http.credentials import access_of_handshake
from headgate.app.http.dependencies import check_at_most, gateway_of
from headgate.app.http.operation import check_path
from headgate.app.live.connection import Connection
from headgate.app.live.frames.client import FRAME_BYTES_MIN, INSTANCE, SHORT_FORM_SUB
from headgate.app.live.frames.server import ProblemFrame
from headgate.app.live.intents import SubscribeIntent, SubscriptionChoices
from headgate.app.live.outbox import code_of
from headgate.app.transport.intake import Socket
from headgate.app.transport.scopes import request_id_of
from headgate.app.wire.credentials import SUBPROTOCOL as TOKEN_SUBPROTOCOL
from headgate.app.wire.credentials import TICKET
from headgate.app.wire.filters import NoFilter, checked_text
from headgate.app.wire.ids import parse_after
from headgate.app.wire.names import check_name
from headgate.app.wire.problems import GatewayError, problem_of
from headgate.engine.config import OnDisconnect
from headgate.engine.limits import COUNT_MAX
from headgate.engine.requests.entries import From

SUBPROTOCOL = "headgate.v1.json"


class SocketQuery(BaseModel):
    """The subscription in the URL of a short form."""

    model_config = ConfigDict(extra="forbid")

    credit: Annotated[int, Field(ge=1)] = 64
    auto_credit: bool = True
    frame_bytes_max: Annotated[int, Field(ge=FRAME_BYTES_MIN)] | None = None


class StreamSocketQuery(SocketQuery):
    """The same, of a stream."""

    after: str = "$"
    filter: str | None = None


class GroupSocketQuery(SocketQuery):
    """The same, of a group."""

    consumer: str | None = None
    filter: NoFilter = None
    claim_idle_ms: Annotated[int, Field(ge=0, le=COUNT_MAX)] | None = None
    on_disconnect: OnDisconnect | None = None
    ack: Literal["explicit", "none"] = "explicit"


async def any_socket(socket: Socket) -> None:
    """Carry any number of subscriptions, and appends."""
    await _serve(socket, None)


async def stream_socket(socket: Socket) -> None:
    """Send everything that comes after a cursor (XREAD BLOCK)."""
    stream = socket.path_params["stream"]

    def first() -> SubscribeIntent:
        check_path(socket)
        query = StreamSocketQuery.model_validate(_query_of(socket))
        _check_credit(socket, query)
        return SubscribeIntent(
            rid=None,
            sub=SHORT_FORM_SUB,
            stream=check_name(stream, pointer="/path/stream"),
            group=None,
            consumer=None,
            after=parse_after(query.after, field="/query/after"),
            credit=query.credit,
            choices=SubscriptionChoices.of(query)._replace(filters=checked_text(query.filter)),
        )

    await _serve(socket, first)


async def group_socket(socket: Socket) -> None:
    """Send deliveries to a consumer of a group (XREADGROUP BLOCK), and take its acks."""
    stream, group = socket.path_params["stream"], socket.path_params["group"]

    def first() -> SubscribeIntent:
        check_path(socket)
        query = GroupSocketQuery.model_validate(_query_of(socket))
        _check_credit(socket, query)
        consumer = query.consumer
        return SubscribeIntent(
            rid=None,
            sub=SHORT_FORM_SUB,
            stream=check_name(stream, pointer="/path/stream"),
            group=check_name(group, pointer="/path/group"),
            consumer=None if consumer is None else check_name(consumer, pointer="/query/consumer"),
            after=From.NOW,
            credit=query.credit,
            choices=SubscriptionChoices.of(query),
        )

    await _serve(socket, first)


class SocketRoutes:
    """ASGI middleware that serves WebSockets.

    As routes of the app they would pass through a dozen layers that have nothing to do for a
    WebSocket and stay in memory as long as it is open.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._routes = [
            (WebSocketRoute("/v1/ws", any_socket), any_socket),
            (WebSocketRoute("/v1/streams/{stream}/ws", stream_socket), stream_socket),
            (WebSocketRoute("/v1/streams/{stream}/groups/{group}/ws", group_socket), group_socket),
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            for route, serve in self._routes:
                match, matched = route.matches(scope)
                if match is Match.FULL:
                    scope.update(matched)
                    await serve(Socket(scope, receive, send))
                    return
        await self._app(scope, receive, send)


async def _serve(socket: Socket, first: Callable[[], SubscribeIntent] | None) -> None:
    gateway = gateway_of(socket)
    offered = socket.scope.get("subprotocols", [])
    await socket.accept(_chosen(offered))
    try:
        access = access_of_handshake(gateway.auth, socket.scope)
        gateway.check_room()
        if access is not None:
            access.usage.connections.check()
    except GatewayError as error:
        with suppress(WebSocketDisconnect, RuntimeError):
            problem = problem_of(error, INSTANCE)
            problem.request_id = request_id_of(socket.scope)
            frame = ProblemFrame(problem=problem)
            await socket.send_text(frame.model_dump_json(exclude_none=True))
            await socket.close(code_of(problem))
        return
    with gateway.metrics.connection("websocket"):
        await Connection(socket, gateway, access).serve(first)


def _chosen(offered: Sequence[str]) -> str | None:
    """Return the subprotocol to answer with; a browser fails if none of its offers is chosen."""
    if SUBPROTOCOL in offered:
        return SUBPROTOCOL
    return next((each for each in offered if each.startswith(TOKEN_SUBPROTOCOL)), None)


def _query_of(socket: Socket) -> dict[str, str]:
    return {name: text for name, text in socket.query_params.items() if name != TICKET}


def _check_credit(socket: Socket, query: SocketQuery) -> None:
    limit = gateway_of(socket).limits.credit_max
    check_at_most(query.credit, limit, pointer="/query/credit")
