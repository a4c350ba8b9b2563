"""A live gateway for every test: real uvicorn, on a free port, in the test's own loop."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
import pytest_asyncio
from blockbuster import BlockBuster, blockbuster_ctx

from headgate.app.auth import key_ring
from headgate.app.auth.tokens import jwks
from headgate.app.backends.embedded import EmbeddedBackend
from headgate.app.backends.port import Backend
from headgate.app.backends.remote.backend import RemoteBackend
from headgate.app.durable_streams import configuration
from headgate.app.gateway.backends import open_backend
from headgate.app.gateway.gateway import Gateway
from headgate.app.main import create_app
from headgate.app.server import Server
from headgate.app.settings import MEMORY, Settings
from headgate.app.transport import certificate
from headgate.engine.requests.schedules import DeleteSchedule, ListSchedules
from headgate.engine.requests.streams import DeleteStream, ListStreams
from tests.api.documents.documented import check_answer, check_documented
from tests.behind_socket import served
from tests.conditions import until
from tests.listeners import accepted
from tests.running import running as keeping_running
from tests.servers.chosen import is_behind_socket, over_servers


@dataclass
class Live:
    """A running gateway, and a client that speaks to it."""

    url: str
    http: httpx.AsyncClient
    gateway: Gateway
    redis_port: int | None  # None: no port for Redis clients was asked for

    @property
    def ws_url(self) -> str:
        return f"ws{self.url.removeprefix('http')}"

    @property
    def waiter_count(self) -> int:
        return self.gateway.waiter_count

    @property
    def position(self) -> int:
        """The size of all recorded changes; 0 where servers keep them."""
        backend = self.gateway.backend
        return backend.engine.storage.position if isinstance(backend, EmbeddedBackend) else 0

    async def ask(self, request: str, json: Any = None) -> Any:
        """Send a request that must succeed, such as "GET /v1/streams"; returns what it is told."""
        method, _, url = request.partition(" ")
        answer = await self.http.request(method, url, json=json)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    async def append(self, stream: str, *values: str) -> list[str]:
        """Append entries with one field `v` each; returns their ids."""
        entries = [{"fields": {"v": value}} for value in values]
        return list((await self.ask(f"POST /v1/streams/{stream}/entries/batch", entries))["ids"])

    async def append_at(self, stream: str, *ids: str) -> None:
        """Append entries with these ids, which are the values of their field `v`."""
        entries = [{"id": entry_id, "fields": {"v": entry_id}} for entry_id in ids]
        await self.ask(f"POST /v1/streams/{stream}/entries/batch", entries)

    async def create_group(self, stream: str, group: str, start: str = "0") -> None:
        body = {"start": start, "create_stream": True}
        await self.ask(f"PUT /v1/streams/{stream}/groups/{group}", body)

    async def read_group(self, stream: str, group: str, consumer: str, **body: Any) -> Any:
        url = f"/v1/streams/{stream}/groups/{group}/read?consumer={consumer}"
        return await self.ask(f"POST {url}", body)

    async def group(self, stream: str, group: str) -> Any:
        return (await self.http.get(f"/v1/streams/{stream}/groups/{group}")).json()

    async def claim(self, stream: str, group: str, consumer: str, **body: Any) -> Any:
        """Take over what `body` says, however short it has been idle."""
        url = f"/v1/streams/{stream}/groups/{group}/claim?consumer={consumer}"
        return await self.ask(f"POST {url}", {"min_idle_ms": 0, **body})

    async def outcomes(
        self, what: str, stream: str, group: str, ids: list[str], consumer: str = "", **body: Any
    ) -> list[str]:
        """Settle entries (`what` is ack, nack or extend); returns the outcome of each."""
        query = f"?consumer={consumer}" if consumer else ""
        url = f"/v1/streams/{stream}/groups/{group}/{what}{query}"
        results = (await self.ask(f"POST {url}", {"ids": ids, **body}))["results"]
        assert [result["id"] for result in results] == ids
        return [result["outcome"] for result in results]

    async def stream(self, stream: str) -> Any:
        return (await self.http.get(f"/v1/streams/{stream}")).json()

    async def until_waiting(self, count: int) -> None:
        """Return as soon as exactly `count` reads are blocked."""
        await until(lambda: self.waiter_count == count)


@asynccontextmanager
async def running(
    settings: Settings, backend: Backend | None = None, trust: ssl.SSLContext | None = None
) -> AsyncIterator[Live]:
    """Run a gateway with these settings while the context lasts; it keeps nothing unless told.

    Args:
        settings: of the gateway.
        backend: what keeps the streams; unless given, what `settings` say, or the servers of
            HEADGATE_TEST_BACKEND.
        trust: which certificates the client takes, if the gateway has one.
    """
    if "data_dir" not in settings.model_fields_set:
        settings = settings.model_copy(update={"data_dir": MEMORY})
    if backend is None:
        settings = over_servers(settings)
    async with (
        _behind_socket(settings, backend) as opened,
        _served(settings, opened, trust) as live,
    ):
        yield live


@asynccontextmanager
async def _behind_socket(
    settings: Settings, backend: Backend | None
) -> AsyncIterator[Backend | None]:
    """Yield the backend of a gateway; HEADGATE_TEST_BACKEND may put its engine behind a socket."""
    if not is_behind_socket() or backend is not None or settings.backend is not None:
        yield backend
        return
    engine = await asyncio.to_thread(open_backend, settings)
    assert isinstance(engine, EmbeddedBackend)
    async with keeping_running(engine), served(engine) as place:
        options = place._replace(waiters_max=settings.waiters_max)
        yield await asyncio.to_thread(RemoteBackend, options)


@asynccontextmanager
async def _served(
    settings: Settings, backend: Backend | None, trust: ssl.SSLContext | None
) -> AsyncIterator[Live]:
    # The machine may be busy, and a loop of the session rests between tests: no test is about that.
    settings = settings.model_copy(update={"loop_delay_warn_ms": 2**31})
    app = await asyncio.to_thread(create_app, settings, backend)
    # The protocol must be named, or asyncio leaves Nagle's delay of 40 ms on every answer.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    listening.listen(4096)
    server = await asyncio.to_thread(Server, app, settings)  # it reads the certificate
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    scheme = "http" if trust is None else "https"
    url = f"{scheme}://127.0.0.1:{listening.getsockname()[1]}"
    limits = httpx.Limits(max_connections=None)
    # To read the certificates of the world takes 40 ms, and plain HTTP needs none.
    verify = False if trust is None else trust
    async with httpx.AsyncClient(
        base_url=url,
        timeout=30,
        limits=limits,
        verify=verify,
        event_hooks={"response": [check_answer]},
    ) as http:
        try:
            if settings.backend is not None or isinstance(backend, RemoteBackend):
                await until(lambda: app.state.gateway.backend.refusal is None)
            if settings.redis_port is not None:
                await until(lambda: server.redis.port is not None)
            yield Live(url, http, app.state.gateway, server.redis.port)
        finally:
            await _stop(server, serving, listening, died=app.state.gateway.died)
            listening.close()


async def _stop(
    server: Server, serving: asyncio.Task[None], listening: socket.socket, died: asyncio.Event
) -> None:
    """Stop a server as it stops itself, but at once: it looks whether to stop every 0.1 s."""
    if not server.started or server.should_exit or died.is_set():
        server.should_exit = True
        await serving
        return
    serving.cancel()
    with suppress(asyncio.CancelledError):
        await serving
    await accepted()
    await server.shutdown([listening])


@pytest.fixture(scope="module", autouse=True)
def files_looked_at_often() -> Iterator[None]:
    """Let a gateway notice at once that a file of keys, or a certificate, has changed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(key_ring, "LOOK_INTERVAL_S", 0.02)
        patch.setattr(jwks, "LOOK_INTERVAL_S", 0.02)
        patch.setattr(certificate, "LOOK_EVERY_S", 0.02)
        yield


@pytest.fixture
def settings() -> Settings:
    """The settings of a test's gateway; override them in a file to choose others."""
    return Settings(heartbeat_ms=200)


@pytest.fixture
async def live(settings: Settings) -> AsyncIterator[Live]:
    async with running(settings) as gateway:
        yield gateway


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def one_gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Live]:
    data_dir = tmp_path_factory.mktemp("data")
    settings = Settings(heartbeat_ms=200, data_dir=data_dir)
    async with running(settings) as gateway:
        yield gateway


@pytest_asyncio.fixture(loop_scope="session")
async def shared(one_gateway: Live) -> AsyncIterator[Live]:
    """A gateway without streams, for tests that need none to themselves: starting one takes time.

    They run in its loop: `pytestmark = pytest.mark.asyncio(loop_scope="session")`.
    """
    yield one_gateway
    await wipe(one_gateway)


async def wipe(live: Live) -> None:
    """Delete all that a test has left in a gateway."""
    backend = live.gateway.backend
    for info in await backend.perform(ListStreams(limit=10_000)):
        await backend.perform(DeleteStream(info.name))
    for schedule in await backend.perform(ListSchedules(limit=10_000)):
        await backend.perform(DeleteSchedule(schedule.name))
    configuration._looked_through.pop(backend, None)  # the next test has streams of these names
    await live.until_waiting(0)


@asynccontextmanager
async def connected(
    live: Live, tls: ssl.SSLContext | None = None
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Connect to say anything, with TLS if it is said what is trusted."""
    url = httpx.URL(live.url)
    reader, writer = await asyncio.open_connection(url.host, url.port, limit=2**16, ssl=tls)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


def problem_in(answer: httpx.Response) -> dict[str, Any]:
    """Return the problem of an answer, once it has all that a problem must have (RFC 9457).

    And its operation must say that it may be answered.
    """
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    problem: dict[str, Any] = answer.json()
    assert problem["status"] == answer.status_code
    assert problem["type"] == f"/problems/{problem['code']}"
    assert problem["instance"].startswith("/")
    assert problem["title"]
    assert problem["detail"]
    assert isinstance(problem["retryable"], bool)
    assert (
        problem["retryable"] == ("retry_after_ms" in problem) == ("Retry-After" in answer.headers)
    )
    check_documented(answer, problem["code"])
    assert not any(word in answer.text for word in ("Traceback", "pydantic", "Value error", ".py"))
    return problem


def refusal_of(answer: httpx.Response) -> tuple[int, str, str]:
    """Return status, code and the pointer of the first error; "" if the problem has none."""
    problem = problem_in(answer)
    errors = problem.get("errors") or [{"pointer": ""}]
    return answer.status_code, problem["code"], errors[0]["pointer"]


@pytest.fixture(autouse=True)
def no_blocking_calls() -> Iterator[BlockBuster]:
    """A call that blocks the event loop fails the test."""
    with blockbuster_ctx(["headgate.app", "headgate.engine"]) as guard:
        yield guard
