"""Hosts and origins, and texts that only look like them."""

import pytest

from headgate.app.http.origin import authority_of, origin_of

HOSTS = {
    "localhost": ("localhost", None),
    "LocalHost:8080": ("localhost", 8080),
    "localhost:": ("localhost", None),
    "localhost:0": ("localhost", 0),
    "localhost:65535": ("localhost", 65535),
    "localhost:00080": ("localhost", 80),
    "localhost.": ("localhost", None),
    "127.0.0.1:80": ("127.0.0.1", 80),
    "[::1]": ("::1", None),
    "[::1]:443": ("::1", 443),
    "[0:0:0:0:0:0:0:1]": ("::1", None),
    "[FE80::A]": ("fe80::a", None),
    "my_service:8080": ("my_service", 8080),
    "xn--bcher-kva.example": ("xn--bcher-kva.example", None),
    "%6cocalhost": ("%6cocalhost", None),
    "localhost,evil": ("localhost,evil", None),
    "localhost..": ("localhost.", None),
    f"{'a' * 255}:65535": ("a" * 255, 65535),
}

NO_HOSTS = [
    *("", ":", ":80", "/", "?", "#", "@", "[", "]", "[]", "[]:80", "::1", "::1:80", "[::1", "::1]"),
    *("evil@localhost", "localhost@evil", "a:b@localhost", "@localhost", "localhost@"),
    *("localhost/", "localhost/.evil.com", "localhost#.evil.com", "localhost?.evil.com"),
    *("localhost\\.evil.com", "http://localhost", "//localhost", "a b"),
    *(" localhost", "localhost ", "local host", "local\thost", "localhost\x00", "localhost\n"),
    *("localhost:65536", "localhost:-1", "localhost:+80", "localhost:80:80", "localhost:http"),
    *("localhost: 80", "localhost:80 ", "localhost:８０", "localhost:80/"),
    f"localhost:{'0' * 300}",
    *("[fe80::1%25eth0]", "[fe80::1%eth0]", "[127.0.0.1]", "[localhost]", "[::1]x", "x[::1]"),
    *("[::1]]", "[[::1]]", "[v1.a]", "[::ffff:1.2.3]", "[1:2:3:4:5:6:7:8:9]", "[::1]:65536"),
    *("bücher.example", "ｌocalhost", "local\u00adhost", "%zz", "a%2", "<localhost>"),
    '"localhost"',
    *("a" * 262, "a" * 65536, "{localhost}", "local|host", "local^host", "local`host"),
]


@pytest.mark.parametrize("text", HOSTS)
def test_a_host_is_read_in_one_spelling(text: str) -> None:
    assert authority_of(text) == HOSTS[text]


@pytest.mark.parametrize("text", NO_HOSTS, ids=lambda text: repr(text[:24]))
def test_what_is_no_host(text: str) -> None:
    assert authority_of(text) is None


@pytest.mark.parametrize(
    ("first", "other"),
    [
        ("http://localhost", "http://LOCALHOST:80"),
        ("https://localhost", "HTTPS://localhost:443"),
        *(("http://[::1]:8080", "http://[0::1]:8080"), ("app://localhost", "app://localhost")),
    ],
)
def test_one_origin_has_several_spellings(first: str, other: str) -> None:
    assert origin_of(first) == origin_of(other) is not None


@pytest.mark.parametrize(
    ("first", "other"),
    [
        *(("http://localhost", "https://localhost"), ("http://localhost:443", "https://localhost")),
        *(("https://localhost:80", "http://localhost"), ("http://localhost", "ws://localhost")),
        *(("http://localhost", "app://localhost"), ("http://localhost", "http://localhost:8080")),
        ("http://localhost", "http://localhost.example"),
    ],
)
def test_origins_that_differ(first: str, other: str) -> None:
    assert origin_of(first) != origin_of(other)


@pytest.mark.parametrize(
    "text",
    [
        *("null", "", "localhost", "//localhost", "http:/localhost", "http:localhost", "http://"),
        *("http://localhost/", "http://a@localhost", "http://localhost http://evil", "*"),
        *("http://localhost, http://evil", " http://localhost", "http ://localhost", "file:///"),
    ],
)
def test_what_is_no_origin(text: str) -> None:
    assert origin_of(text) is None
