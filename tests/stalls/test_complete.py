"""Whatever the gateway understands is in the suite, or is left out for a reason."""

from typing import get_args

import pytest
from fastapi import FastAPI
from starlette.routing import Mount, Route

from headgate.app.live.frames.client import AnyClientFrame
from headgate.app.main import create_app
from headgate.app.redis_syntax.server import SUBCOMMANDS
from headgate.app.routes.socket import SocketRoutes
from headgate.app.settings import MEMORY, Settings
from tests.stalls.suite import CASES

LEFT_OUT = {
    "UNLINK": "it is DEL",
    "FLUSHDB": "it is FLUSHALL",
    **dict.fromkeys(("BGREWRITEAOF", "BGSAVE", "SAVE"), "it is rewriteJournal"),
    "LASTSAVE": "its reply is a number",
    **dict.fromkeys(("WAIT", "WAITAOF"), "they wait for the journal, or not at all"),
    "frame auth": "a token has 8 KiB at most",
    "route followGatewayHistory": "an event is what a row of readGatewayHistory is",
    "route cutOffConnection": "it ends one connection",
    **dict.fromkeys(
        ("route rotateApiKey", "route revokeApiKey"), "one key is changed, as by createApiKey"
    ),
    "route createTicket": "its body has a few names",
    "route /static-offline-docs": "files of a package, sent by Starlette",
}

COVERED = {name for case in CASES for name in case.covers}


@pytest.fixture
async def app() -> FastAPI:
    return create_app(Settings(data_dir=MEMORY))


async def test_every_command_is_in_the_suite(app: FastAPI) -> None:
    below = {f"{name} {sub}" for name, sub in _subcommands()}
    known = {name.decode() for name in app.state.gateway.commands._commands} | below

    assert known - COVERED - set(LEFT_OUT) == set()


async def test_every_route_is_in_the_suite(app: FastAPI) -> None:
    known = set()
    for route in app.routes:
        if isinstance(route, Mount):
            known.add(f"route {route.path}")
            continue
        assert isinstance(route, Route)
        name = getattr(route, "operation_id", None)
        known |= {f"route {name or f'{method} {route.path}'}" for method in _methods(route)}

    assert known - COVERED - set(LEFT_OUT) == set()


async def test_every_socket_is_in_the_suite(app: FastAPI) -> None:
    known = {f"socket {route.path}" for route, _ in SocketRoutes(app)._routes}

    assert known - COVERED - set(LEFT_OUT) == set()


def test_every_frame_is_in_the_suite() -> None:
    union = get_args(AnyClientFrame)[0]
    known = {
        f"frame {get_args(model.model_fields['type'].annotation)[0]}" for model in get_args(union)
    }

    assert known - COVERED - set(LEFT_OUT) == set()


async def test_what_is_left_out_is_there_and_not_in_the_suite(app: FastAPI) -> None:
    assert not COVERED & set(LEFT_OUT)


def _subcommands() -> list[tuple[str, str]]:
    return [(name.decode(), sub.decode()) for name, subs in SUBCOMMANDS.items() for sub in subs]


def _methods(route: Route) -> set[str]:
    methods = set(route.methods or ())
    # Starlette adds HEAD to a GET of its own; what answers it is the same.
    return methods - {"HEAD"} if "GET" in methods else methods
