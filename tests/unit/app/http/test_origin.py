"""Pages that may call a gateway, with and without credentials."""

import logging
from typing import Any

import pytest

from headgate.app.http.origin import OriginGuard
from headgate.app.transport.heads import Head, sent_of
from headgate.app.transport.proxies import Proxies
from tests.conditions import until

APP = "https://app.example"
STRANGER = "https://stranger.example"


class Called:
    """An app that notes with which headers it was called."""

    def __init__(self) -> None:
        self.headers: list[dict[bytes, bytes]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.headers.append(dict(sent_of(scope)))


async def ask(
    *,
    hosts: tuple[str, ...] = (),
    origins: tuple[str, ...] = (),
    is_open: bool = False,
    path: str = "/v1/streams",
    scheme: str = "http",
    twice: dict[str, str] = {},  # noqa: B006
    **headers: str,
) -> dict[bytes, bytes] | None:
    """Return the headers with which the app was called, None if it was not."""
    app = Called()
    guard = OriginGuard(
        app, own_host="10.0.0.1", hosts=hosts, origins=origins, is_open=lambda: is_open
    )
    sent = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    sent += [(name.encode(), value.encode()) for name, value in twice.items()]
    scope: dict[str, Any] = {"type": "http", "method": "GET", "path": path, "headers": sent}
    proxies = Proxies(["10.0.0.9"])
    scope |= {"scheme": scheme, "client": ("10.0.0.9", 1), "state": {"proxies": proxies}}
    head = Head(scope)
    await guard({**scope}, no_event, ignore)
    for _ in range(2):  # as the first time, though the head is known
        await guard({**scope, "head": head}, no_event, ignore)
    assert app.headers in ([], app.headers[:1] * 3)
    return app.headers[0] if app.headers else None


async def no_event() -> Any:
    raise AssertionError("nothing is received")


async def ignore(event: Any) -> None:
    pass


@pytest.mark.parametrize(
    ("is_open", "hosts", "host", "is_answered"),
    [
        *((True, (), "localhost:8080", True), (True, (), "10.0.0.1", True)),
        *((True, (), "gw.example", False), (True, ("gw.example",), "gw.example", True)),
        *((False, (), "gw.example", True), (False, (), "", True)),
        (False, ("gw.example",), "gw.example", True),
        *((False, ("gw.example",), "other.example", False), (False, ("*",), "other.example", True)),
    ],
)
async def test_names_matter_where_it_is_open_or_hosts_are_configured(
    is_open: bool, hosts: tuple[str, ...], host: str, is_answered: bool
) -> None:
    called = await ask(is_open=is_open, hosts=hosts, host=host)

    assert (called is not None) == is_answered


@pytest.mark.parametrize("is_open", [True, False])
@pytest.mark.parametrize("host", ["evil@localhost", "localhost/.evil.com", "localhost#.evil.com"])
async def test_what_is_no_host_is_refused_everywhere(host: str, is_open: bool) -> None:
    assert await ask(is_open=is_open, host=host) is None
    assert await ask(is_open=is_open, host=host, path="/healthz") is None


@pytest.mark.parametrize("name", ["host", "origin", "sec-fetch-site"])
async def test_a_header_that_says_who_calls_comes_once(name: str) -> None:
    sent = {"host": "localhost", "origin": "http://localhost", "sec_fetch_site": "same-origin"}
    assert await ask(**sent) is not None  # type: ignore[arg-type]
    again = {name: sent[name.replace("-", "_")]}
    assert await ask(**sent, twice=again) is None  # type: ignore[arg-type]


OWN = [
    *("http localhost http://localhost", "http localhost:80 http://localhost"),
    *("https gw https://gw:443", "http [::1]:8080 http://[::1]:8080", "wss gw https://gw"),
    *("ws localhost:8080 http://localhost:8080", "http gw https://gw https"),
    *("ws gw https://gw wss", "http gw https://gw http,https"),
]
OF_OTHERS = [
    *("http gw https://gw", "https gw http://gw", "wss gw http://gw", "http gw http://gw https"),
    *("http gw:443 https://gw", "http gw http://gw:8080", "http localhost app://localhost"),
    *("http localhost null", "http localhost http://localhost%20http://evil"),
    "http localhost http://" + "a" * 65536,
]


@pytest.mark.parametrize("case", [*OWN, *OF_OTHERS], ids=range(len(OWN) + len(OF_OTHERS)))
async def test_a_page_is_the_gateways_own_by_scheme_host_and_port(case: str) -> None:
    """Of a scheme, a host, an origin, and a scheme that a proxy forwards."""
    scheme, host, origin, *forwarded = case.split()
    headers = dict(zip(["x_forwarded_proto"], forwarded, strict=False))
    called = await ask(scheme=scheme, host=host, origin=origin.replace("%20", " "), **headers)  # type: ignore[arg-type]

    assert (called is not None) == (case in OWN)


async def test_an_origin_on_the_list_may_be_written_in_another_way() -> None:
    listed = ("https://App.example:443/",)
    assert await ask(origins=listed, host="gw", origin=APP) is not None
    assert await ask(origins=listed, host="gw", origin="http://app.example") is None


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
        *(({"origin": STRANGER}, False), ({"origin": "null"}, False)),
        *(({"sec_fetch_site": "cross-site"}, False), ({"origin": APP}, True)),
        *(({"origin": "http://localhost"}, True), ({"sec_fetch_site": "same-origin"}, True)),
        ({}, True),
    ],
)
async def test_an_unnamed_page_has_no_cookies(headers: dict[str, Any], has_cookie: bool) -> None:
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
