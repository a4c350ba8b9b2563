"""Routes mean on ours what they mean on FastAPI as it is: answers, errors and the document."""

from collections.abc import AsyncIterator, Callable
from functools import partial, wraps
from itertools import count
from typing import Annotated, Any

import pytest
from fastapi import (
    APIRouter,
    Depends,
    FastAPI,
    Header,
    HTTPException,
    Query,
    Request,
    Response,
    Security,
)
from fastapi.responses import PlainTextResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer, SecurityScopes
from pydantic import BaseModel
from starlette.types import ASGIApp, Receive, Scope, Send

from tests.unit.app.http.fastapi_twice import Twice, built_twice

Router = Callable[..., APIRouter]

BEARER = HTTPBearer()


class Item(BaseModel):
    """A body, and an answer."""

    name: str
    price: int = 1
    note: str | None = None


class Page:
    """A class as a dependency: its parameters are those of what makes it."""

    def __init__(self, limit: int = 10, after: str | None = None) -> None:
        self.limit = limit
        self.after = after


class Doubled:
    """An instance as a dependency."""

    async def __call__(self, number: int) -> int:
        return 2 * number


class Odd(Exception):
    """An error that an app has a handler for."""


async def refused() -> None:
    raise HTTPException(401, "who are you?", {"WWW-Authenticate": "Bearer"})


def tripled(number: int) -> int:
    return 3 * number


async def both(
    doubled: Annotated[int, Depends(Doubled())], thrice: Annotated[int, Depends(tripled)]
) -> list[int]:
    return [doubled, thrice]


async def added(response: Response, x_trace: Annotated[str | None, Header()] = None) -> None:
    response.headers["X-Added"] = x_trace or "nothing"


async def scopes_asked(
    scopes: SecurityScopes, credentials: Annotated[HTTPAuthorizationCredentials, Depends(BEARER)]
) -> str:
    return f"{credentials.credentials}: {scopes.scope_str}"


async def writer(of: Annotated[str, Security(scopes_asked, scopes=["write"])]) -> str:
    return of


def traced(call: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(call)
    def traced_call(*args: Any, **kwargs: Any) -> Any:
        return call(*args, **kwargs)

    return traced_call


def build(app: FastAPI, router: Router) -> None:
    """Add routes of all kinds."""
    routes = router(prefix="/v1", tags=["Items"])
    add_dependencies(routes)
    add_counted(routes)
    add_items(routes)
    add_answers(routes)
    add_handlers(app)
    guarded = router(prefix="/guarded", dependencies=[Depends(added)])

    @guarded.get("/plain")
    async def plain() -> str:
        return "plain"

    app.include_router(routes)
    app.include_router(guarded, prefix="/v2", dependencies=[Depends(BEARER)])


def add_dependencies(routes: APIRouter) -> None:
    @routes.get("/bearer")
    async def bearer(who: Annotated[HTTPAuthorizationCredentials, Depends(BEARER)]) -> str:
        return who.credentials

    @routes.get("/refused")
    async def with_refused(nothing: Annotated[None, Depends(refused)]) -> str:
        return "let in"

    @routes.get("/refused/nameless", dependencies=[Depends(refused)])
    async def with_nameless() -> str:
        return "let in"

    @routes.get("/both")
    async def with_both(both: Annotated[list[int], Depends(both)]) -> list[int]:
        return both

    @routes.get("/partial")
    async def with_partial(
        number: Annotated[int, Depends(partial(tripled, 4))],
        wrapped: Annotated[list[int], Depends(traced(both))],
    ) -> list[int]:
        return [number, *wrapped]

    @routes.get("/scopes")
    async def with_scopes(
        who: Annotated[str, Security(writer, scopes=["read"])],
        other: Annotated[str, Security(scopes_asked, scopes=["admin"])],
    ) -> list[str]:
        return [who, other]

    @routes.get("/page")
    async def page(page: Annotated[Page, Depends()]) -> dict[str, Any]:
        return {"limit": page.limit, "after": page.after}


def add_counted(routes: APIRouter) -> None:
    numbers = count()

    async def next_number() -> int:
        return next(numbers)

    async def next_twice(number: Annotated[int, Depends(next_number)]) -> int:
        return number

    @routes.get("/once")
    async def once(
        first: Annotated[int, Depends(next_number)],
        second: Annotated[int, Depends(next_twice)],
        new: Annotated[int, Depends(next_number, use_cache=False)],
    ) -> list[int]:
        return [first, second, new]


def add_items(routes: APIRouter) -> None:
    @routes.get("/items/{item}")
    async def read_item(
        item: str, number: Annotated[int, Query(ge=1)], x_kind: Annotated[str, Header()] = "none"
    ) -> dict[str, Any]:
        return {"item": item, "number": number, "kind": x_kind}

    @routes.post("/items", status_code=201)
    async def create_item(item: Item, response: Response) -> Item:
        response.headers["X-Name"] = item.name
        return item

    @routes.put("/items/{item}")
    async def replace_item(item: str, value: Item | None = None) -> str:
        return f"{item}: {value}"

    @routes.post("/items/{item}/echo")
    async def echo(item: str, request: Request, value: Item) -> dict[str, Any]:
        return {"read_again": (await request.body()).decode(), "json": await request.json()}

    @routes.delete("/items/{item}", status_code=204)
    async def delete_item(item: str) -> None:
        del item

    @routes.get("/files/{path:path}")
    async def file(path: str) -> str:
        return path

    @routes.post("/items/new")
    async def new_item() -> str:
        return "new"


def add_answers(routes: APIRouter) -> None:
    @routes.get("/filtered", response_model=Item, response_model_exclude_none=True)
    async def filtered() -> dict[str, Any]:
        return {"name": "a", "secret": "no"}

    @routes.get("/part", response_model_include={"name"})
    async def part() -> Item:
        return Item(name="a", note="b")

    @routes.get("/wrong", response_model=Item)
    async def wrong() -> dict[str, Any]:
        return {"price": "no number"}

    @routes.get("/odd/{how}")
    async def odd(how: str) -> str:
        if how == "teapot":
            raise HTTPException(418)
        if how == "odd":
            raise Odd
        raise ValueError(how)


def add_handlers(app: FastAPI) -> None:
    @app.exception_handler(Odd)
    async def handle_odd(_: Request, error: Exception) -> Response:
        return PlainTextResponse(type(error).__name__, 409)

    @app.exception_handler(418)
    def handle_teapot(_: Request, error: Exception) -> Response:
        return PlainTextResponse("short and stout", 418)

    @app.exception_handler(Exception)
    async def handle_rest(_: Request, error: Exception) -> Response:
        return PlainTextResponse(f"failed: {type(error).__name__}", 500)


@pytest.fixture
async def twice() -> AsyncIterator[Twice]:
    async with built_twice(build) as apps:
        yield apps


async def test_the_document_is_the_same(twice: Twice) -> None:
    assert twice.ours.openapi() == twice.stock.openapi()


@pytest.mark.parametrize(
    ("url", "status"),
    [
        *(("/v1/bearer", 401), ("/v1/refused", 401), ("/v1/refused/nameless", 401)),
        *(("/v1/both?number=2", 200), ("/v1/both", 422), ("/v1/partial?number=1", 200)),
        *(("/v1/scopes", 401), ("/v1/once", 200), ("/v1/page", 200), ("/v1/page?limit=x", 422)),
        *(("/v1/items/a?number=1", 200), ("/v1/items/a?number=0", 422)),
        *(("/v1/items/new?number=2", 200), ("/v1/items/a", 422), ("/v1/items", 405)),
        *(("/v1/filtered", 200), ("/v1/part", 200), ("/v1/wrong", 500), ("/v1/odd/teapot", 418)),
        *(("/v1/odd/odd", 409), ("/v1/odd/value", 500), ("/v1/files/a/b/c", 200)),
        *(("/v2/guarded/plain", 401), ("/nothing", 404), ("/v1/items/", 404)),
    ],
)
async def test_a_request_is_answered_the_same(twice: Twice, url: str, status: int) -> None:
    assert (await twice.get(url)).status_code == status


async def test_a_credential_reaches_its_route(twice: Twice) -> None:
    headers = {"Authorization": "Bearer abc"}

    assert (await twice.get("/v1/bearer", headers=headers)).json() == "abc"
    answer = await twice.get("/v1/scopes", headers=headers)
    assert answer.json() == ["abc: read write", "abc: admin"]
    answer = await twice.get("/v2/guarded/plain", headers={**headers, "X-Trace": "t"})
    assert answer.headers["X-Added"] == "t"


async def test_a_dependency_is_called_once_a_request_unless_it_says_otherwise(twice: Twice) -> None:
    assert (await twice.get("/v1/once")).json() == [0, 0, 1]
    assert (await twice.get("/v1/once")).json() == [2, 2, 3]


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


async def test_an_override_is_called_instead(twice: Twice) -> None:
    async def as_anyone(x_name: Annotated[str, Header()] = "anyone") -> Any:
        return HTTPAuthorizationCredentials(scheme="Bearer", credentials=x_name)

    for app in (twice.stock, twice.ours):
        app.dependency_overrides = {BEARER: as_anyone, refused: lambda: None}

    assert (await twice.get("/v1/bearer")).json() == "anyone"
    assert (await twice.get("/v1/bearer", headers={"X-Name": "me"})).json() == "me"
    assert (await twice.get("/v1/refused/nameless")).json() == "let in"
    assert (await twice.get("/v1/scopes")).json() == ["anyone: read write", "anyone: admin"]

    for app in (twice.stock, twice.ours):
        app.dependency_overrides.clear()
    assert (await twice.get("/v1/bearer")).status_code == 401


class Marked:
    """Middleware that marks answers, and fails where it is asked to."""

    def __init__(self, app: ASGIApp, mark: str) -> None:
        self._app = app
        self._mark = mark

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["query_string"] == self._mark.encode():
            raise ValueError(self._mark)

        async def marked(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"].append((b"x-mark", self._mark.encode()))
            await send(message)

        await self._app(scope, receive, marked)


async def test_middleware_is_passed_by_all_requests() -> None:
    def build_marked(app: FastAPI, router: Router) -> None:
        app.add_middleware(Marked, "inner")
        app.add_middleware(Marked, "outer")
        build(app, router)

    async with built_twice(build_marked) as twice:
        answer = await twice.get("/v1/page")
        assert answer.headers.get_list("x-mark") == ["inner", "outer"]
        assert (await twice.get("/v1/refused")).headers["x-mark"] == "inner, outer"
        assert (await twice.get("/nothing")).headers["x-mark"] == "inner, outer"
        assert (await twice.get("/v1/page?inner")).text == "failed: ValueError"

        with pytest.raises(RuntimeError, match="Cannot add middleware"):
            twice.ours.add_middleware(Marked, "late")
