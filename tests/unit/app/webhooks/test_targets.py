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

REFUSED = [
    "http://93.184.215.14/hook",
    "https://127.0.0.1/",
    "https://127.1/",
    "https://2130706433/",
    "https://0x7f.0.0.1/",
    "https://[::1]/",
    "https://[::ffff:127.0.0.1]/",
    "https://[::ffff:10.0.0.1]/",
    "https://10.0.0.1/",
    "https://172.16.0.1/",
    "https://192.168.1.1/",
    "https://169.254.169.254/latest/meta-data",
    "https://100.64.0.1/",
    "https://0.0.0.0/",
    "https://224.0.0.1/",
    "https://[fe80::1]/",
    "https://[fd00::1]/",
    "https://[64:ff9b::7f00:1]/",
    "https://[64:ff9b:1::a00:1]/",
    "https://[2002:7f00:1::]/",
    "https://[2001::1]/",
    "https://[::127.0.0.1]/",
    "https://[::ffff:0:127.0.0.1]/",
    "https://[fec0::1]/",
    "https://[5f00::1]/",
    "https://[100::1]/",
    "https://[ff0e::1]/",
    "https://[fe80::1%25lo]/",
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
