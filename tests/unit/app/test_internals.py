"""Internals of uvicorn, websockets, Starlette and FastAPI that we rely on, name by name.

None of it is promised to stay. So `pyproject.toml` caps the versions, and whoever raises a cap is
told here what has moved, and which folder of ours has to follow.
"""

import ast
import dataclasses
import inspect
import textwrap
from typing import Any

import pytest
import uvicorn
from fastapi import APIRouter, FastAPI, params
from fastapi.dependencies.models import Dependant
from fastapi.dependencies.utils import get_dependant
from fastapi.middleware.asyncexitstack import AsyncExitStackMiddleware
from fastapi.routing import APIRoute
from starlette.applications import Starlette
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.requests import Request
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.extensions.permessage_deflate import (
    PerMessageDeflate,
    ServerPerMessageDeflateFactory,
)
from websockets.server import ServerProtocol

from headgate.app import server
from headgate.app.transport import intake, requests, websocket
from headgate.app.workers import worker

CALLS: dict[Any, str] = {
    HttpToolsProtocol: (
        "__init__:config,server_state,app_state,_loop _should_upgrade: "
        "_start_asgi_task:cycle,app _unset_keepalive_if_required: connection_lost:exc "
        "connection_made:transport data_received:data handle_websocket_upgrade: "
        "on_body:body on_headers_complete: on_message_begin: on_message_complete: "
        "on_response_complete: pause_writing: resume_writing:"
    ),
    FlowControl: "__init__:transport drain: pause_reading: resume_reading:",
    WebSocketsSansIOProtocol: (
        "__init__:config,server_state,app_state,_loop connection_lost:exc "
        "data_received:data handle_bytes:event handle_connect:event handle_cont:event "
        "handle_parser_exception: handle_text:event keepalive_timeout: "
        "on_task_complete:task receive: resume_writing: run_asgi: send:message "
        "send_receive_event_to_app: start_keepalive:"
    ),
    ServerProtocol: (
        "__init__:origins,extensions,subprotocols,select_subprotocol,state,max_size,logger "
        "accept:request send_response:response"
    ),
    PerMessageDeflate: "encode:frame",
    ServerPerMessageDeflateFactory: "process_request_params:params,accepted_extensions",
    uvicorn.Server: (
        "__init__:config handle_exit:sig,frame main_loop: on_tick:counter run:sockets "
        "shutdown:sockets startup:sockets"
    ),
    APIRoute: "get_route_handler: matches:scope",
    AsyncExitStackMiddleware: "__init__:app,context_name",
    ExceptionMiddleware: "__init__:app,handlers,debug",
    Request: "__init__:scope,receive,send body: stream:",
}
"""Methods, with their parameters."""

ATTRIBUTES: dict[Any, str] = {
    HttpToolsProtocol: "access_log app app_state connections cycle expect_100_continue flow "
    "headers loop parser pipeline scope server_state tasks timeout_keep_alive "
    "timeout_keep_alive_task transport url",
    FlowControl: "read_paused write_paused",
    WebSocketsSansIOProtocol: "app_state close_sent close_timer config conn "
    "curr_msg_data_type disconnected handshake_complete logger loop queue read_paused request "
    "response scope transport writable",
    ServerProtocol: "available_extensions close_sent handshake_exc parser parser_exc",
    PerMessageDeflate: "local_max_window_bits local_no_context_takeover remote_max_window_bits "
    "remote_no_context_takeover",
    uvicorn.Server: "_captured_signals config force_exit lifespan server_state servers should_exit "
    "started",
    Starlette: "debug exception_handlers middleware_stack router user_middleware",
}

DEPENDANT = """
background_tasks_param_name body_params call concurrency cookie_params dependencies header_params
http_connection_param_name name own_oauth_scopes parent_oauth_scopes path path_params query_params
request_param_name response_param_name scope security_scopes_param_name use_cache
websocket_param_name
"""

ROUTE = """
body_field dependant dependencies endpoint max_body_size methods path response_class response_field
response_model response_model_by_alias response_model_exclude response_model_exclude_defaults
response_model_exclude_none response_model_exclude_unset response_model_include status_code
strict_content_type
"""

OURS = {
    requests.BoundedHttp: HttpToolsProtocol,
    requests._Flow: FlowControl,
    intake.BoundedWebSocket: WebSocketsSansIOProtocol,
    websocket.SocketProtocol: WebSocketsSansIOProtocol,
    websocket._Handshake: ServerProtocol,
    server.Server: uvicorn.Server,
    worker.WorkerServer: uvicorn.Server,
}


@pytest.mark.parametrize("owner", CALLS, ids=lambda owner: owner.__name__)
def test_calls_are_as_we_know_them(owner: Any) -> None:
    for name, _, parameters in (call.partition(":") for call in CALLS[owner].split()):
        signature = inspect.signature(getattr(owner, name))
        known = [each for each in parameters.split(",") if each]
        assert [each for each in signature.parameters if each != "self"] == known, name


@pytest.mark.parametrize("owner", ATTRIBUTES, ids=lambda owner: owner.__name__)
def test_attributes_are_there(owner: Any) -> None:
    assert {*ATTRIBUTES[owner].split()} <= _kept(owner)


@pytest.mark.parametrize("ours", OURS, ids=lambda ours: ours.__name__)
def test_all_that_a_class_of_ours_uses_of_its_base_is_named_here(ours: Any) -> None:
    base = OURS[ours]
    kept = _kept(base)
    used = {name for name in _used(ours) if name in kept or callable(getattr(base, name, None))}

    calls = {call.partition(":")[0] for call in CALLS[base].split()}
    assert used <= {*calls, *ATTRIBUTES[base].split()}


def test_fastapi_reads_signatures_into_what_we_compile_and_nothing_else() -> None:
    assert {field.name for field in dataclasses.fields(Dependant)} == {*DEPENDANT.split()}


async def _endpoint(number: int = 1) -> int:
    return number


def test_a_route_tells_what_we_compile() -> None:
    router = APIRouter()
    router.add_api_route("/here", _endpoint)

    assert all(hasattr(router.routes[0], name) for name in ROUTE.split())


def test_a_parameter_is_validated_as_we_ask_for_it() -> None:
    [field] = get_dependant(path="/", call=_endpoint).query_params

    assert field.validate("2", {}, loc=("query", "number")) == (2, [])
    value, [wrong] = field.validate("x", {}, loc=("query", "number"))
    assert (value, wrong["loc"]) == (None, ("query", "number"))
    assert (field.name, field.alias, field.default) == ("number", "number", 1)
    info: Any = field.field_info
    assert (info.in_.value, info.is_required(), info.annotation) == ("query", False, int)
    assert not info.metadata
    assert not info.validate_default
    assert info.default_factory is info.validation_alias is None
    assert params.Body().embed is None


def test_an_app_has_what_we_look_at() -> None:
    app = FastAPI()

    assert app.max_body_size is None
    assert app.router.dependencies == []


def _kept(owner: type) -> set[str]:
    """Return the attributes that a class gives to its instances."""
    kept = set()
    for kind in owner.__mro__[:-1]:
        for node in ast.walk(_parsed(kind)):
            match node:
                case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                    kept.add(name)
    return kept


def _used(owner: type) -> set[str]:
    """Return the names that a class uses of itself and of its base, with its methods."""
    used = set()
    for node in ast.walk(_parsed(owner)):
        match node:
            case ast.Attribute(value=ast.Name(id="self"), attr=name):
                used.add(name)
            case ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr=name):
                used.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                used.add(name)
    return used


def _parsed(owner: type) -> ast.Module:
    if owner.__module__ in ("asyncio.protocols", "typing"):
        return ast.Module([], [])
    return ast.parse(textwrap.dedent(inspect.getsource(owner)))
