"""Operations mean what they mean to FastAPI, and what would mean something else is refused."""

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Annotated, Any, Literal

import httpx
import pytest
from fastapi import (
    APIRouter,
    BackgroundTasks,
    Body,
    Cookie,
    Depends,
    FastAPI,
    Header,
    HTTPException,
    Query,
    Request,
    Response,
    Security,
    WebSocket,
)
from fastapi.responses import PlainTextResponse
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.types import ASGIApp, Receive, Scope, Send

from headgate.app.auth.needs import OPEN
from headgate.app.http.dispatch import put_together
from headgate.app.http.operation import Operation
from headgate.app.http.parameters import Unsupported
from headgate.app.main import create_app
from headgate.app.settings import MEMORY, Settings
from headgate.app.transport.heads import Head

_COMPARED = ("allow", "content-type", "www-authenticate", "x-name")


class OpenOperation(Operation):
    """An operation that everybody may ask, as stock FastAPI has it."""

    needs = OPEN


class Item(BaseModel):
    """A body, and an answer."""

    name: str
    price: int = 1
    note: str | None = None


class Odd(Exception):
    """An error that an app has a handler for."""


def refused() -> None:
    raise HTTPException(401, "who are you?", {"WWW-Authenticate": "Bearer"})


def doubled(number: int) -> int:
    return 2 * number


def of_both(twice: Annotated[int, Depends(doubled)], x_kind: Annotated[str, Header()] = "") -> str:
    return f"{x_kind}{twice}"


def object_made() -> object:
    return object()


async def with_refused(nothing: Annotated[None, Depends(refused)]) -> str:
    return "let in"


async def with_nameless() -> str:
    return "let in"


async def with_both(
    both: Annotated[str, Depends(of_both)], kind: Literal["a", "b"] | None = None
) -> list[str | None]:
    return [both, kind]


def key_of(idempotency_key: Annotated[str, Header(max_length=3)] = "") -> str:
    return idempotency_key


async def with_key(key: Annotated[str, Depends(key_of)]) -> str:
    return key


async def once(
    first: Annotated[object, Depends(object_made)], second: Annotated[object, Depends(object_made)]
) -> bool:
    return first is second


async def read_item(
    item: str, number: Annotated[int, Query(ge=1)], x_kind: Annotated[str, Header()] = "none"
) -> dict[str, Any]:
    return {"item": item, "number": number, "kind": x_kind}


async def create_item(item: Item, response: Response) -> Item:
    response.headers["X-Name"] = item.name
    return item


async def replace_item(item: str, value: Item | None = None) -> str:
    return f"{item}: {value}"


async def echo(item: str, request: Request, value: Item) -> dict[str, Any]:
    return {"read_again": (await request.body()).decode(), "json": await request.json()}


async def delete_item(item: str) -> None:
    del item


async def file(path: str) -> str:
    return path


async def new_item() -> str:
    return "new"


async def filtered() -> dict[str, Any]:
    return {"name": "a", "secret": "no"}


async def part() -> Item:
    return Item(name="a", note="b")


async def wrong() -> dict[str, Any]:
    return {"price": "no number"}


async def odd(how: str) -> str:
    raise Odd if how == "odd" else ValueError(how)


ROUTES: list[tuple[str, str, Callable[..., Any], dict[str, Any]]] = [
    ("GET", "/refused", with_refused, {}),
    ("GET", "/refused/nameless", with_nameless, {"dependencies": [Depends(refused)]}),
    *(("GET", "/both", with_both, {}), ("GET", "/once", once, {})),
    ("GET", "/key", with_key, {}),
    ("GET", "/items/{item}", read_item, {}),
    ("POST", "/items", create_item, {"status_code": 201}),
    *(("PUT", "/items/{item}", replace_item, {}), ("POST", "/items/{item}/echo", echo, {})),
    ("DELETE", "/items/{item}", delete_item, {"status_code": 204}),
    *(("GET", "/files/{path:path}", file, {}), ("POST", "/items/new", new_item, {})),
    ("GET", "/filtered", filtered, {"response_model": Item, "response_model_exclude_none": True}),
    ("GET", "/part", part, {"response_model_include": {"name"}}),
    *(("GET", "/wrong", wrong, {"response_model": Item}), ("GET", "/odd/{how}", odd, {})),
]
"""Routes with all that is supported."""


class Twice:
    """The same routes on FastAPI as it is and on ours, to be asked the same."""

    def __init__(self) -> None:
        self.apps = [FastAPI(redirect_slashes=False), FastAPI(redirect_slashes=False)]
        for app, route_class in zip(self.apps, (APIRoute, OpenOperation), strict=True):
            routes = APIRouter(prefix="/v1", tags=["Items"], route_class=route_class)
            for method, path, function, options in ROUTES:
                routes.add_api_route(path, function, methods=[method], **options)
            app.router.routes.extend(routes.routes)
            app.add_exception_handler(Odd, _told)
            app.add_exception_handler(Exception, _told)
        put_together(self.apps[1])
        gateway = create_app(Settings(data_dir=MEMORY)).state.gateway
        apps: list[ASGIApp] = [*self.apps, _with_heads(self.apps[1])]
        self.clients = [
            httpx.AsyncClient(
                transport=httpx.ASGITransport(
                    _with_state(app, gateway), raise_app_exceptions=False
                ),
                base_url="http://test",
            )
            for app in apps
        ]

    async def ask(self, method: str, url: str, **options: Any) -> httpx.Response:
        """Return our answer, once it is the same as that of FastAPI as it is.

        It has to be the same, too, for a head that is new, and for one that came before.
        """
        stock, ours, with_heads = self.clients
        theirs = _shown(await stock.request(method, url, **options))
        answer = await ours.request(method, url, **options)
        new = await with_heads.request(method, url, **options)
        known = await with_heads.request(method, url, **options)
        assert [_shown(answer), _shown(new), _shown(known)] == [theirs] * 3
        return answer


async def _told(_: Request, error: Exception) -> Response:
    return PlainTextResponse(type(error).__name__, 409 if isinstance(error, Odd) else 500)


def _with_state(app: ASGIApp, gateway: object) -> ASGIApp:
    """Return an app whose requests have a server's state."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, "state": {"gateway": gateway}}, receive, send)

    return serve


def _with_heads(app: ASGIApp) -> ASGIApp:
    """Return an app that knows the heads of all its requests."""
    heads: dict[str, Head] = {}

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        varied = [header for header in scope["headers"] if header[0] == b"idempotency-key"]
        headers = [header for header in scope["headers"] if header not in varied]
        text = repr([scope["method"], scope["raw_path"], scope["query_string"], headers])
        scope = {**scope, "head": heads.setdefault(text, Head(scope, headers))}
        await app({**scope, "varied": varied} if varied else scope, receive, send)

    return serve


def _shown(answer: httpx.Response) -> tuple[int, str, dict[str, str]]:
    """Return the visible parts of an answer; the type of no content is no matter."""
    headers = {name: text for name, text in answer.headers.items() if name in _COMPARED}
    if not answer.content:
        headers.pop("content-type", None)
    return answer.status_code, answer.text, headers


@pytest.fixture
async def twice() -> AsyncIterator[Twice]:
    apps = Twice()
    yield apps
    for client in apps.clients:
        await client.aclose()


async def test_the_document_is_the_same(twice: Twice) -> None:
    stock, ours = twice.apps
    assert ours.openapi() == stock.openapi()


@pytest.mark.parametrize(
    ("url", "status"),
    [
        *(("/v1/refused", 401), ("/v1/refused/nameless", 401), ("/v1/both?number=2", 200)),
        *(("/v1/both", 422), ("/v1/both?number=2&kind=a", 200), ("/v1/both?number=x&kind=c", 422)),
        *(("/v1/items/a?number=1", 200), ("/v1/items/a?number=0", 422)),
        *(("/v1/items/new?number=2", 200), ("/v1/items/a", 422), ("/v1/items", 405)),
        *(("/v1/filtered", 200), ("/v1/part", 200), ("/v1/wrong", 500)),
        *(("/v1/odd/odd", 409), ("/v1/odd/value", 500), ("/v1/files/a/b/c", 200)),
        *(("/nothing", 404), ("/v1/items/", 404)),
    ],
)
async def test_a_request_is_answered_the_same(twice: Twice, url: str, status: int) -> None:
    headers = {"X-Kind": "odd"}
    assert (await twice.ask("GET", url)).status_code == status
    assert (await twice.ask("GET", url, headers=headers)).status_code == status


async def test_a_header_that_varies_is_read_each_time(twice: Twice) -> None:
    for key in ("a", "b", "long", "a", None, "b"):
        await twice.ask("GET", "/v1/key", headers={} if key is None else {"Idempotency-Key": key})


async def test_a_dependency_is_called_once_a_request(twice: Twice) -> None:
    assert (await twice.ask("GET", "/v1/once")).json() is True


async def test_a_body_is_taken_the_same(twice: Twice) -> None:
    assert (await twice.ask("POST", "/v1/items", json={"name": "a"})).status_code == 201
    assert (await twice.ask("POST", "/v1/items", json={"price": "b"})).status_code == 422
    assert (await twice.ask("POST", "/v1/items")).status_code == 422
    assert (await twice.ask("PUT", "/v1/items/a")).json() == "a: None"
    assert (await twice.ask("PUT", "/v1/items/a", json={"name": "b"})).status_code == 200
    assert (await twice.ask("POST", "/v1/items/a/echo", json={"name": "b"})).status_code == 200
    assert (await twice.ask("DELETE", "/v1/items/a")).status_code == 204
    assert (await twice.ask("POST", "/v1/items/new")).json() == "new"
    assert (await twice.ask("DELETE", "/v1/items/a/echo")).status_code == 405


async def plain() -> int:
    return 1


async def awaited() -> int:
    return 1


def yielding() -> Iterator[int]:
    yield 1


def of_body(item: Item) -> Item:
    return item


def called_below(value: Annotated[int, Depends(yielding)]) -> int:
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


async def with_alias(at: Annotated[int, Query(validation_alias="when")] = 1) -> int:
    return at


async def with_bodies(first: Item, second: Item) -> int:
    return 1


async def with_embedded(first: Annotated[Item, Body(embed=True)]) -> int:
    return 1


async def with_scopes(value: Annotated[int, Security(endpoint, scopes=["write"])]) -> int:
    return value


async def uncached(value: Annotated[int, Depends(endpoint, use_cache=False)]) -> int:
    return value


async def of_nothing() -> None:
    pass


ONE_BODY = "anything but `async def` with one body"


@pytest.mark.parametrize(
    ("function", "options", "what"),
    [
        (plain, {"dependencies": [Depends(yielding)]}, "yielding"),
        (plain, {"dependencies": [Depends(called_below)]}, "yielding"),
        (plain, {"dependencies": [Depends(awaited)]}, "awaited"),
        (plain, {"dependencies": [Depends(Item)]}, "Item"),
        (plain, {"dependencies": [Depends(of_body)]}, "body_params of of_body"),
        (plain, {"response_class": PlainTextResponse}, "a response class of its own"),
        *((plain, {"max_body_size": 10}, ONE_BODY), (endpoint, {}, ONE_BODY)),
        *((streamed, {}, ONE_BODY), (with_bodies, {}, ONE_BODY), (with_embedded, {}, ONE_BODY)),
        *((with_cookie, {}, "cookie_params"), (with_tasks, {}, "background_tasks")),
        *((with_socket, {}, "websocket"), (with_scopes, {}, "own_oauth_scopes of endpoint")),
        *((uncached, {}, "use_cache of endpoint"), (with_many, {}, "'tag'")),
        *((with_model, {}, "'item'"), (with_made_default, {}, "'at'"), (with_alias, {}, "'at'")),
        (of_nothing, {}, "neither a model nor a Response"),
    ],
)
def test_a_route_is_refused(
    function: Callable[..., Any], options: dict[str, Any], what: str
) -> None:
    with pytest.raises(Unsupported) as caught:
        compile_route(APIRouter(), function, methods=["POST"], **options)

    assert str(caught.value).startswith("POST /v1/things: this is not supported: ")
    assert what in str(caught.value)


def test_a_router_that_takes_bodies_of_no_type_is_refused() -> None:
    with pytest.raises(Unsupported, match=ONE_BODY):
        compile_route(APIRouter(strict_content_type=False), plain)


def compile_route(router: APIRouter, function: Callable[..., Any], **options: Any) -> None:
    router.add_api_route("/v1/things", function, route_class_override=OpenOperation, **options)
    [route] = router.routes
    assert isinstance(route, OpenOperation)
    route.compiled.compile()


def test_every_operation_of_the_gateway_is_supported() -> None:
    app = create_app(Settings(data_dir=MEMORY))
    operations = [each for each in app.routes if isinstance(each, Operation)]
    for each in operations:
        each.compiled.compile()
    assert len(operations) > 90


def test_a_route_that_would_be_found_in_place_of_another_is_refused() -> None:
    app, router = FastAPI(), APIRouter(route_class=OpenOperation)
    router.add_api_route("/things/{name}", plain)
    router.add_api_route("/things/all", plain)
    app.router.routes.extend(router.routes)

    with pytest.raises(Unsupported, match=r"GET /things/all comes after GET /things/\{name\}"):
        put_together(app)


@pytest.mark.parametrize(
    "options", [{"debug": True}, {"max_body_size": 10}, {"dependencies": [Depends(endpoint)]}]
)
def test_what_an_app_itself_would_do_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(Unsupported, match="of its own"):
        put_together(FastAPI(**options))


async def test_a_route_that_comes_too_late_answers_nothing(twice: Twice) -> None:
    twice.apps[1].router.add_api_route("/late", plain, route_class_override=OpenOperation)
    assert (await twice.clients[1].get("/late")).status_code == 500
