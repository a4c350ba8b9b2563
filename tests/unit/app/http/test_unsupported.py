"""Features of FastAPI that are not run here are refused by name when a route is made."""

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Annotated, Any

import pytest
from fastapi import APIRouter, BackgroundTasks, Body, Cookie, Depends, FastAPI, Query, WebSocket
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel

from headgate.app.http.layers import put_together
from headgate.app.http.parameters import Unsupported
from tests.unit.app.http.fastapi_twice import OpenOperation, built_twice


class Item(BaseModel):
    name: str


async def yielding() -> AsyncIterator[int]:
    yield 1


def yielding_too() -> Iterator[int]:
    yield 1


async def of_body(item: Item) -> Item:
    return item


async def with_yield(value: Annotated[int, Depends(yielding)]) -> int:
    return value


async def with_nested_yield(value: Annotated[int, Depends(with_yield)]) -> int:
    return value


def endpoint() -> int:
    return 1


async def streamed() -> AsyncIterator[int]:
    yield 1


async def with_cookie(session: Annotated[str, Cookie()]) -> int:
    return 1


async def with_tasks(tasks: BackgroundTasks) -> int:
    return 1


async def with_socket(socket: WebSocket) -> int:
    return 1


async def with_many(tag: Annotated[list[str], Query()]) -> int:
    return 1


async def with_model(item: Annotated[Item, Query()]) -> int:
    return 1


async def with_made_default(at: Annotated[int, Query(default_factory=lambda: 1)]) -> int:
    return at


async def with_bodies(first: Item, second: Item) -> int:
    return 1


async def with_embedded(first: Annotated[Item, Body(embed=True)]) -> int:
    return 1


async def with_body_below(item: Annotated[Item, Depends(of_body)]) -> int:
    return 1


async def of_nothing() -> None:
    pass


async def plain() -> int:
    return 1


@pytest.mark.parametrize(
    ("function", "options", "what"),
    [
        (with_yield, {}, "yielding yields"),
        (with_nested_yield, {}, "yielding yields"),
        (plain, {"dependencies": [Depends(yielding_too)]}, "yielding_too yields"),
        (endpoint, {}, "the endpoint is `def`"),
        (streamed, {}, "the endpoint yields"),
        (with_cookie, {}, "cookies ('session')"),
        (with_tasks, {}, "background tasks"),
        (with_socket, {}, "a WebSocket"),
        (with_many, {}, "'tag' has more than one value"),
        (with_model, {}, "'item' has more than one value"),
        (with_made_default, {}, "'at' has a default that is made for each request"),
        (with_bodies, {}, "a body of several parameters"),
        (with_embedded, {}, "a body of several parameters"),
        (with_body_below, {}, "of_body takes the body"),
        (of_nothing, {}, "neither a model nor a Response"),
        (plain, {"response_class": PlainTextResponse}, "a response class of its own"),
        (plain, {"max_body_size": 10}, "a bound of its own for the body"),
    ],
)
def test_a_route_is_refused_with_its_name(
    function: Callable[..., Any], options: dict[str, Any], what: str
) -> None:
    router = APIRouter(route_class=OpenOperation)

    with pytest.raises(Unsupported) as caught:
        router.add_api_route("/v1/things", function, methods=["POST"], **options)

    assert str(caught.value).startswith("POST /v1/things: this is not supported: ")
    assert what in str(caught.value)


def test_what_an_including_router_adds_is_refused() -> None:
    router, app = APIRouter(route_class=OpenOperation), FastAPI()
    router.add_api_route("/things", plain)
    app.include_router(router, prefix="/v1", dependencies=[Depends(yielding)])

    with pytest.raises(Unsupported, match=r"GET /v1/things: .* yielding yields"):
        put_together(app)


def test_dependencies_of_an_app_that_a_route_would_not_have_are_refused() -> None:
    router, app = APIRouter(route_class=OpenOperation), FastAPI(dependencies=[Depends(plain)])
    router.add_api_route("/things", plain)
    app.router.routes.extend(router.routes)

    with pytest.raises(Unsupported, match=r"/things: .* dependencies of an app"):
        put_together(app)


def test_a_route_that_would_be_found_in_place_of_another_is_refused() -> None:
    router, app = APIRouter(route_class=OpenOperation), FastAPI()
    router.add_api_route("/things/{name}", plain)
    router.add_api_route("/things/all", plain)
    app.include_router(router)

    with pytest.raises(Unsupported, match=r"GET /things/all comes after GET /things/\{name\}"):
        put_together(app)


@pytest.mark.parametrize("options", [{"debug": True}, {"max_body_size": 10}])
def test_what_an_app_itself_would_do_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(Unsupported, match="the app"):
        put_together(FastAPI(**options))


def test_a_router_that_takes_bodies_of_no_type_is_refused() -> None:
    router = APIRouter(route_class=OpenOperation, strict_content_type=False)

    with pytest.raises(Unsupported, match="a body that does not say what it is"):
        router.add_api_route("/v1/things", plain)


async def test_a_route_that_comes_too_late_answers_nothing() -> None:
    async with built_twice(lambda app, router: None) as twice:
        router = APIRouter(route_class=OpenOperation)
        router.add_api_route("/late", plain)
        twice.ours.include_router(router)

        assert (await twice.clients[1].get("/late")).status_code == 500
