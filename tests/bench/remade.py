"""Remade: the parts that stand in place of FastAPI and uvicorn, and the time that each saves.

`make bench ARGS=remade`. Microseconds of CPU for one small append, without a network: both ways in
turns, in this process.
"""

import asyncio
import json
import statistics
import time
import uuid
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.dependencies.utils import solve_dependencies
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute, iter_route_contexts, serialize_response
from pydantic import TypeAdapter
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from headgate.app.auth.needs import OPEN
from headgate.app.http.answers import AnswerModel, OpenAnswer
from headgate.app.http.dispatch import Dispatch
from headgate.app.http.layers import put_together
from headgate.app.http.operation import Operation, WholeRequest
from headgate.app.http.parameters import Parameters
from headgate.app.main import create_app
from headgate.app.settings import MEMORY, Settings
from headgate.app.transport.request_ids import new_id
from headgate.app.transport.requests import in_time
from headgate.app.wire.plain import plain_entry
from headgate.app.wire.schemas.entries import Append, Appended
from headgate.engine.eager import EagerCall
from tests.bench.plain import UNWATCHED
from tests.bench.table import Figure

ROUNDS = 7
REQUESTS = 2_000

BODY = b'{"fields":{"sku":"42","count":"1"}}'
HEADERS = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")]
ANSWER = Appended(id="1795225468445-0")
HEAD = (
    b"POST /v1/streams/orders/entries HTTP/1.1\r\nhost: 127.0.0.1\r\n"
    b"content-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(BODY)
)

Work = Callable[[], Awaitable[object]]
"""One piece of work, done once."""


async def measure() -> list[Figure]:
    """Return the time of each part, ours and theirs."""
    gateway_app = create_app(Settings(data_dir=MEMORY))
    stock, ours = (_appending(route_class) for route_class in (APIRoute, _OpenOperation))
    put_together(ours)
    state = {"gateway": gateway_app.state.gateway}
    parts: list[tuple[str, Work, str, Work]] = [
        ("an operation, all of it", _asked(ours, state), "FastAPI", _asked(stock, state)),
        ("· its path found", *_finding(gateway_app)),
        ("· its parameters read", *_parameters(ours, stock, state)),
        ("· its body read", *_bodies(stock)),
        ("· its answer made", *_answers(stock)),
        ("· no task for it", _eagerly, "a task", _in_task),
        ("HTTP on a connection, all of it", *_connections(state)),
        ("· its id made", _now(new_id), "uuid4", _now(lambda: str(uuid.uuid4()))),
    ]
    figures: list[Figure] = []
    for name, here, peer, there in parts:
        times: tuple[list[float], list[float]] = [], []
        for _ in range(ROUNDS):
            for work, taken in zip((here, there), times, strict=True):
                taken.append(await _time_us(work))
        figures.append(Figure.of_rounds(name, times[0], "µs", peer, times[1]))
        print(f"{name}: {statistics.median(times[1]) - statistics.median(times[0]):.1f} µs less")
    return figures


async def _time_us(work: Work) -> float:
    for _ in range(REQUESTS // 10):
        await work()
    began_s = time.process_time()
    for _ in range(REQUESTS):
        await work()
    return (time.process_time() - began_s) / REQUESTS * 1e6


def _now(call: Callable[[], object]) -> Work:
    """Return a call as work that waits for nothing."""

    async def work() -> object:
        return call()

    return work


class _OpenOperation(Operation):
    needs = OPEN


def _stream_of(stream: str) -> bytes:
    return stream.encode()


def _access_of(request: Request) -> object:
    return request.scope["state"]["gateway"]


async def _append(
    access: Annotated[Any, Depends(_access_of)],
    stream: Annotated[bytes, Depends(_stream_of)],
    entry: Append,
) -> Appended:
    """Answer as an append does."""
    del access, stream, entry
    return ANSWER


async def _stream_of_theirs(stream: str) -> bytes:
    return stream.encode()


async def _access_of_theirs(request: Request) -> object:
    return request.scope["state"]["gateway"]


async def _append_theirs(
    access: Annotated[Any, Depends(_access_of_theirs)],
    stream: Annotated[bytes, Depends(_stream_of_theirs)],
    entry: Append,
) -> Appended:
    """Do the same with coroutines, as FastAPI would call the functions in threads."""
    del access, stream, entry
    return ANSWER


def _appending(route_class: type[APIRoute]) -> FastAPI:
    """Return an app with one operation that does nothing."""
    app = FastAPI(openapi_url=None, telemetry=UNWATCHED)
    router = APIRouter(route_class=route_class)
    append = _append_theirs if route_class is APIRoute else _append
    router.post("/v1/streams/{stream}/entries", status_code=201, response_model=Appended)(append)
    app.include_router(router)
    return app


def _scope(app: FastAPI, state: dict[str, Any]) -> Scope:
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/v1/streams/orders/entries",
        "raw_path": b"/v1/streams/orders/entries",
        "query_string": b"",
        "root_path": "",
        "headers": [*HEADERS, (b"content-length", b"%d" % len(BODY))],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
        "state": state,
        "app": app,
    }


async def _body() -> Message:
    return {"type": "http.request", "body": BODY, "more_body": False}


async def _drop(message: Message) -> None:
    assert message.get("status", 201) == 201, message


def _asked(app: FastAPI, state: dict[str, Any]) -> Work:
    return lambda: app(_scope(app, state), _body, _drop)


def _finding(app: FastAPI) -> tuple[Work, str, Work]:
    dispatch = Dispatch(app, app.router)
    routes = [
        context
        for context in iter_route_contexts(app.routes)
        if isinstance(context.original_route, APIRoute)
    ]
    scope = _scope(app, {})

    def search() -> object:
        return next(route for route in routes if route.matches(scope)[0].value == 2)

    return _now(lambda: dispatch._find(scope)), "its router", _now(search)


def _context(app: FastAPI) -> Any:
    return next(iter_route_contexts(app.routes))


def _parameters(ours: FastAPI, stock: FastAPI, state: dict[str, Any]) -> tuple[Work, str, Work]:
    parameters, scope = Parameters(_context(ours).dependant), _scope(ours, state)
    scope["path_params"] = {"stream": "orders"}

    async def theirs() -> object:
        async with AsyncExitStack() as stack:
            stacks = {"fastapi_inner_astack": stack, "fastapi_function_astack": stack}
            return await solve_dependencies(
                request=Request({**scope, **stacks}),
                dependant=_context(stock).dependant,
                async_exit_stack=stack,
                embed_body_fields=False,
            )

    def here() -> object:
        return parameters.values(WholeRequest(scope, _body), OpenAnswer(), [])

    return _now(here), "solve_dependencies", theirs


def _bodies(app: FastAPI) -> tuple[Work, str, Work]:
    field = TypeAdapter(Append)
    return (
        _now(lambda: plain_entry(BODY)),
        "its model",
        _now(lambda: field.validate_python(json.loads(BODY)).to_draft()),
    )


def _answers(app: FastAPI) -> tuple[Work, str, Work]:
    route = _context(app)
    model = AnswerModel(route)

    def ours() -> object:
        answer = OpenAnswer()
        answer.complete(201, model.json(ANSWER))
        return answer

    async def theirs() -> object:
        content = await serialize_response(
            field=route.response_field, response_content=ANSWER, is_coroutine=True
        )
        return JSONResponse(content, status_code=201)

    return _now(ours), "serialize_response", theirs


async def _nothing() -> None:
    return None


async def _eagerly() -> None:
    EagerCall(_nothing(), lambda call: None).start()


async def _in_task() -> None:
    await asyncio.create_task(_nothing())


class _Wire(asyncio.Transport):
    """The way to a client that takes everything."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 2)})
        self.is_answered = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.is_answered = True

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0

    def abort(self) -> None: ...

    def close(self) -> None: ...


async def _answering(scope: Scope, receive: Receive, send: Send) -> None:
    await receive()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"2")]
    await send({"type": "http.response.start", "status": 201, "headers": headers})
    await send({"type": "http.response.body", "body": b"{}"})


def _connections(state: dict[str, Any]) -> tuple[Work, str, Work]:
    ours, theirs = (
        _connection(kind, _answering, state) for kind in (in_time(60_000), HttpToolsProtocol)
    )
    return ours, "httptools_impl", theirs


def _connection(kind: type[HttpToolsProtocol], app: ASGIApp, state: dict[str, Any]) -> Work:
    config = Config(app, access_log=False, log_config=None)
    config.load()
    protocol, wire = kind(config, ServerState(), state), _Wire()
    protocol.connection_made(wire)

    async def ask() -> None:
        wire.is_answered = False
        protocol.data_received(HEAD + BODY)
        while not wire.is_answered:
            await asyncio.sleep(0)

    return ask
