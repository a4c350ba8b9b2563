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
async def test_a_public_address_may_be_asked(url: str) -> None:
    parts, address = await Targets().resolve(url)
    assert parts.scheme == "https"
    assert address in url


@pytest.mark.parametrize("url", NAMES)
def test_a_name_of_a_host_is_no_fault(url: str) -> None:
    assert Targets().check(url).hostname


@pytest.mark.parametrize("url", REFUSED)
async def test_others_may_not(url: str) -> None:
    with pytest.raises(TargetRefused):
        await Targets().resolve(url)


async def test_an_allowed_network_may_be_asked_also_by_plain_http() -> None:
    targets = Targets([ip_network("10.1.0.0/16"), ip_network("127.0.0.0/8")])
    assert (await targets.resolve("http://10.1.2.3:8000/"))[1] == "10.1.2.3"
    with pytest.raises(TargetRefused):
        await targets.resolve("http://10.2.0.1/")


async def test_a_name_is_judged_by_its_address() -> None:
    with pytest.raises(TargetRefused):
        await Targets().resolve("https://localhost/")
    local = Targets([ip_network("127.0.0.0/8"), ip_network("::1/128")])
    assert (await local.resolve("http://localhost:1/"))[1] in ("127.0.0.1", "::1")


async def test_a_name_that_nobody_knows_is_an_error_of_the_network() -> None:
    with pytest.raises(OSError, match=r".+"):
        await Targets().resolve("https://no-such-host.invalid/")
