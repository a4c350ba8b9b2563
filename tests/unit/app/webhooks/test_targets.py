"""Webhooks reach public addresses, and networks that the operator allows, and nothing else."""

from __future__ import annotations

from ipaddress import ip_network

import pytest

from headgate.app.webhooks.targets import TargetRefused, Targets

PUBLIC = ["https://93.184.215.14/hook", "https://[2606:2800:21f:cb07::1]:8443/h?x=1"]

NAMES = [
    "https://example.com/",
    "https://a_b.x-y.example.:8443/h",
    "https://xn--mnchen-3ya.de/",
    f"https://{'a' * 63}.example/",
]

INWARD = [
    *("127.0.0.1", "127.1", "127.0.1", "127.255.255.254", "2130706433", "017700000001"),
    *("0x7f000001", "0x7f.1", "0x7f.0.0.1", "0177.0.0.1", "0177.0.0.01", "127.0x0.0.1", "0"),
    *("0.0.0.0", "0x0", "10.0.0.1", "10.1", "0xa000001", "167772161", "012.0.0.1", "172.16.0.1"),
    *("172.31.255.255", "192.168.1.1", "192.168.257", "0xc0a80101", "169.254.169.254"),
    *("169.254.43518", "0xa9fea9fe", "2852039166", "0251.0376.0251.0376", "100.64.0.1"),
    *("100.100.100.200", "192.0.0.192", "192.88.99.1", "192.0.2.1", "198.18.0.1", "198.51.100.1"),
    *("203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255", "[::1]"),
    *("[::]", "[0:0:0:0:0:0:0:1]", "[0000:0000:0000:0000:0000:0000:0000:0001]"),
    *("[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:ffff:7f00:1]", "[::ffff:a9fe:a9fe]"),
    *("[::ffff:10.0.0.1]", "[::127.0.0.1]", "[::ffff:0:127.0.0.1]", "[64:ff9b::7f00:1]"),
    *("[64:ff9b:1::a00:1]", "[2002:7f00:1::]", "[2002:a9fe:a9fe::1]", "[2001::1]"),
    *("[2001:0:7f00:1::]", "[2001:10::1]", "[2001:db8::1]", "[3fff::1]", "[fe80::1]"),
    *("[fe80::1%25lo]", "[fc00::1]", "[fd00:ec2::254]", "[fec0::1]", "[5f00::1]", "[100::1]"),
    *("[ff02::1]", "[ff0e::1]"),
]
"""Spellings of addresses of this machine, of private networks, of links, of groups, of nobody."""

REFUSED = [
    *(f"https://{host}/hook" for host in INWARD),
    "http://93.184.215.14/hook",
    "https://169.254.169.254/latest/meta-data",
    "https://[::ffff:93.184.215.14]x:1/",
    "https://[2606:4700::1]x/",
    "https://93.184.215.14 x:1/",
    "https://93.184.215.14 :1/",
    "https://a..b/",
    "https://.a/",
    "https://a%b/",
    "https://" + "a" * 64 + ".example/",
    "https://" + "a." * 130 + "example/",
    "ftp://93.184.215.14/",
    " https://example.com/",
    "https://example.com/a b",
    "file:///etc/passwd",
    "https://user@93.184.215.14/",
    "https:///path",
    "https://host:port/",
    "https://[half/",
    "https://host/\r\nHost: other",
    "https://h\u00f6st/",
    "https://" + "h" * 3000,
    "",
]


@pytest.mark.parametrize("url", PUBLIC)
def test_a_public_address_may_be_asked(url: str) -> None:
    parts = Targets().check(url)
    assert parts.scheme == "https"
    assert (parts.hostname or "?") in url


@pytest.mark.parametrize("url", NAMES)
def test_a_name_of_a_host_is_no_fault(url: str) -> None:
    assert Targets().check(url).hostname


@pytest.mark.parametrize("url", REFUSED)
def test_others_may_not(url: str) -> None:
    with pytest.raises(TargetRefused):
        Targets().check(url)


def test_an_allowed_network_may_be_asked_also_by_plain_http_and_at_any_port() -> None:
    targets = Targets([ip_network("10.1.0.0/16"), ip_network("127.0.0.0/8")])
    assert targets.check("http://10.1.2.3:8000/").hostname == "10.1.2.3"
    with pytest.raises(TargetRefused):
        targets.check("http://10.2.0.1/")


def test_a_network_that_is_denied_is_never_asked() -> None:
    networks = [ip_network("10.0.0.0/8")], [ip_network("10.1.0.0/16"), ip_network("93.0.0.0/8")]
    targets = Targets(*networks)
    assert targets.check("https://10.2.0.1/").hostname == "10.2.0.1"
    for url in ("https://10.1.0.1/", "https://[::ffff:10.1.0.1]/", "https://93.184.215.14/"):
        with pytest.raises(TargetRefused):
            targets.check(url)


def test_of_a_public_host_only_some_ports_are_asked() -> None:
    targets = Targets(ports=[443, 9000])
    for url in ("https://example.com/", "https://93.184.215.14:9000/"):
        assert targets.check(url).hostname
    for url in ("https://example.com:8443/", "https://93.184.215.14:22/"):
        with pytest.raises(TargetRefused, match="443, 9000"):
            targets.check(url)
