"""Only proxies that are named may say who the client is."""

from typing import Any

import pytest

from headgate.app.transport.proxies import Proxies, base_url, client_address

FORWARDED = {"Host": "gw", "X-Forwarded-Proto": "https", "X-Forwarded-Host": "gw.example"}
NAMED = ("10.0.0.0/8", "2001:db8::/32", "192.0.2.1")


def scope(
    peer: str | None, *headers: tuple[str, str], named: tuple[str, ...] = NAMED, **others: Any
) -> dict[str, Any]:
    return {
        "type": "http",
        "scheme": "http",
        "client": peer and (peer, 1234),
        "server": ("127.0.0.1", 8080),
        "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in headers],
        "state": {"proxies": Proxies(named)},
        **others,
    }


def forwarded(peer: str, *values: str, named: tuple[str, ...] = NAMED) -> str:
    headers = [("X-Forwarded-For", value) for value in values]
    return client_address(scope(peer, *headers, named=named))


@pytest.mark.parametrize(
    ("peer", "values", "client"),
    [
        ("10.0.0.1", ["203.0.113.7"], "203.0.113.7"),
        ("192.0.2.1", ["203.0.113.7"], "203.0.113.7"),
        ("2001:db8::1", ["2001:db9::7"], "2001:db9::7"),
        ("::ffff:10.0.0.1", ["203.0.113.7"], "203.0.113.7"),
        # what stands to the left of the first stranger is made up
        ("10.0.0.1", ["1.1.1.1, 203.0.113.7"], "203.0.113.7"),
        ("10.0.0.1", ["1.1.1.1", "203.0.113.7"], "203.0.113.7"),
        ("10.0.0.1", ["1.1.1.1, 203.0.113.7, 10.0.0.9, 10.2.3.4"], "203.0.113.7"),
        ("10.0.0.1", ["10.0.0.9"], "10.0.0.9"),
        # ports, brackets, zones
        ("10.0.0.1", ["203.0.113.7:4711"], "203.0.113.7"),
        ("10.0.0.1", ["[2001:db9::7]:4711"], "2001:db9::7"),
        ("10.0.0.1", ["[2001:db9::7]"], "2001:db9::7"),
        ("10.0.0.1", ["fe80::1%eth0"], "fe80::1"),
        ("10.0.0.1", ["::ffff:203.0.113.7"], "203.0.113.7"),
        ("10.0.0.1", [" 203.0.113.7 ,\t10.0.0.2"], "203.0.113.7"),
        # garbage ends the way: the last one known is a proxy
        ("10.0.0.1", ["203.0.113.7, unknown"], "10.0.0.1"),
        ("10.0.0.1", ["203.0.113.7, garbage, 10.0.0.2"], "10.0.0.2"),
        *(("10.0.0.1", [""], "10.0.0.1"), ("10.0.0.1", [], "10.0.0.1")),
        *(("10.0.0.1", [",,,"], "10.0.0.1"), ("10.0.0.1", ["\xff\n\0"], "10.0.0.1")),
        *(("10.0.0.1", ["203.0.113.07"], "10.0.0.1"), ("10.0.0.1", ["999.1.1.1"], "10.0.0.1")),
        ("10.0.0.1", ["[::1", "]"], "10.0.0.1"),
        # a stranger may say what it likes
        *(("203.0.113.9", ["1.1.1.1"], "203.0.113.9"), ("11.0.0.1", ["10.0.0.1"], "11.0.0.1")),
        ("not an address", ["1.1.1.1"], "not an address"),
    ],
)
def test_the_client_is_the_first_stranger_from_the_right(
    peer: str, values: list[str], client: str
) -> None:
    assert forwarded(peer, *values) == client


def test_nobody_is_trusted_unless_named_and_no_other_header_is() -> None:
    for peer in ("127.0.0.1", "::1", "10.0.0.1"):
        assert forwarded(peer, "203.0.113.7", named=()) == peer
    others = [("Forwarded", "for=1.1.1.1"), ("X-Real-IP", "1.1.1.1"), ("Client-IP", "1.1.1.1")]
    assert client_address(scope("10.0.0.1", *others, ("True-Client-IP", "1.1.1.1"))) == "10.0.0.1"


@pytest.mark.parametrize(
    ("peer", "headers", "url"),
    [
        ("203.0.113.9", {"Host": "gw.example:8080"}, "http://gw.example:8080"),
        ("203.0.113.9", {"Host": "[::1]:8080"}, "http://[::1]:8080"),
        ("203.0.113.9", {}, "http://127.0.0.1:8080"),
        ("203.0.113.9", {"Host": "a b'$(x)"}, "http://127.0.0.1:8080"),
        *(("203.0.113.9", FORWARDED, "http://gw"), ("10.0.0.1", FORWARDED, "https://gw.example")),
        ("10.0.0.1", {"Host": "gw", "X-Forwarded-Proto": "HTTPS"}, "https://gw"),
        ("10.0.0.1", {"Host": "gw", "X-Forwarded-Proto": "http, https"}, "https://gw"),
        ("10.0.0.1", {"Host": "gw", "X-Forwarded-Proto": "javascript"}, "http://gw"),
    ],
)
def test_the_url_is_that_which_the_client_sees(
    peer: str, headers: dict[str, str], url: str
) -> None:
    assert base_url(scope(peer, *headers.items())) == url
    assert base_url(scope(peer, *headers.items(), root_path="/streams")) == f"{url}/streams"
