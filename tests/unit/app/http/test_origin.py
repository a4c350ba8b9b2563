"""Which pages may call a gateway, with and without credentials."""

import logging
from typing import Any

import pytest

from headgate.app.http.origin import OriginGuard
from tests.api.conftest import until

APP = "https://app.example"
STRANGER = "https://stranger.example"


class Called:
    """An app that notes with which headers it was called."""

    def __init__(self) -> None:
        self.headers: list[dict[bytes, bytes]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.headers.append(dict(scope["headers"]))


async def ask(
    *,
    hosts: tuple[str, ...] = (),
    origins: tuple[str, ...] = (),
    is_open: bool = False,
    path: str = "/v1/streams",
    **headers: str,
) -> dict[bytes, bytes] | None:
    """Return the headers with which the app was called, None if it was not."""
    app = Called()
    guard = OriginGuard(
        app, own_host="10.0.0.1", hosts=hosts, origins=origins, is_open=lambda: is_open
    )
    sent = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": "GET", "path": path, "headers": sent}
    await guard(scope, no_event, ignore)
    return app.headers[0] if app.headers else None


async def no_event() -> Any:
    raise AssertionError("nothing is received")


async def ignore(event: Any) -> None:
    pass


@pytest.mark.parametrize(
    ("is_open", "hosts", "host", "is_answered"),
    [
        (True, (), "localhost:8080", True),
        (True, (), "10.0.0.1", True),
        (True, (), "gw.example", False),
        (True, ("gw.example",), "gw.example", True),
        (False, (), "gw.example", True),
        (False, (), "", True),
        (False, ("gw.example",), "gw.example", True),
        (False, ("gw.example",), "other.example", False),
        (False, ("*",), "other.example", True),
    ],
)
async def test_names_matter_where_it_is_open_or_hosts_are_configured(
    is_open: bool, hosts: tuple[str, ...], host: str, is_answered: bool
) -> None:
    called = await ask(is_open=is_open, hosts=hosts, host=host)

    assert (called is not None) == is_answered


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
async def test_names_never_matter_to_probes(path: str) -> None:
    assert await ask(is_open=True, path=path, host="10.9.9.9") is not None
    assert await ask(hosts=("gw.example",), path=path, host="10.9.9.9") is not None


@pytest.mark.parametrize("is_open", [True, False])
async def test_pages_of_strangers_are_refused_with_and_without_credentials(is_open: bool) -> None:
    called = await ask(is_open=is_open, host="localhost", origin=STRANGER)
    embedded = await ask(is_open=is_open, host="localhost", sec_fetch_site="cross-site")

    assert (called, embedded) == (None, None)


@pytest.mark.parametrize(
    ("headers", "has_cookie"),
    [
        ({"origin": STRANGER}, False),
        ({"origin": "null"}, False),
        ({"sec_fetch_site": "cross-site"}, False),
        ({"origin": APP}, True),
        ({"origin": "http://localhost"}, True),
        ({"sec_fetch_site": "same-origin"}, True),
        ({}, True),
    ],
)
async def test_a_page_that_nobody_has_named_comes_without_cookies(
    headers: dict[str, Any], has_cookie: bool
) -> None:
    called = await ask(origins=("*", APP), host="localhost", cookie="headgate_token=x", **headers)

    assert called is not None
    assert (b"cookie" in called) == has_cookie
    assert called[b"host"] == b"localhost"


async def test_refusals_are_logged_but_not_without_bound(caplog: pytest.LogCaptureFixture) -> None:
    guard = OriginGuard(Called(), own_host="localhost", hosts=(), origins=(), is_open=lambda: True)
    headers = [(b"host", b"evil.example"), (b"authorization", b"Bearer secret")]
    scope = {"type": "http", "method": "GET", "path": "/v1/x y", "headers": headers}
    for _ in range(500):
        await guard(dict(scope), no_event, ignore)
    before = len(caplog.records)
    await until(lambda: len(caplog.records) > before)

    assert {record.levelno for record in caplog.records} == {logging.WARNING}
    *lines, last = [vars(record) for record in caplog.records]
    assert len(lines) == 10
    assert lines[0]["path"] == "/v1/x%20y"
    assert "'evil.example'" in lines[0]["reason"]
    assert last["left_out"] == 490
    assert "secret" not in str(lines)

    await guard(dict(scope), no_event, ignore)
    assert vars(caplog.records[-1])["path"] == "/v1/x%20y"
