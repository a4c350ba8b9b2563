"""Webhooks reach public addresses and what operators allow; places go to those with few of them."""

from __future__ import annotations

import asyncio
from ipaddress import ip_network

import pytest

from headgate.app.webhooks.places import Places
from headgate.app.webhooks.targets import TargetRefused, Targets

PUBLIC = ["https://93.184.215.14/hook", "https://[2606:2800:21f:cb07::1]:8443/h?x=1"]

NAMES = [
    *("https://example.com/", "https://a_b.x-y.example.:8443/h", "https://xn--mnchen-3ya.de/"),
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
    *("http://93.184.215.14/hook", "https://169.254.169.254/latest/meta-data", "", "https:///path"),
    *(
        "https://[::ffff:93.184.215.14]x:1/",
        "https://[2606:4700::1]x/",
        "https://93.184.215.14 x:1/",
    ),
    *(
        *("https://93.184.215.14 :1/", "https://a..b/", "https://.a/", "https://a%b/"),
        "file:///etc/passwd",
    ),
    *(
        "https://" + "a" * 64 + ".example/",
        "https://" + "a." * 130 + "example/",
        "https://" + "h" * 3000,
    ),
    *("ftp://93.184.215.14/", " https://example.com/", "https://example.com/a b", "https://[half/"),
    *("https://user@93.184.215.14/", "https://host:port/", "https://h\u00f6st/"),
    "https://host/\r\nHost: other",
]


@pytest.mark.parametrize("url", [*PUBLIC, *NAMES])
def test_a_public_address_and_a_name_may_be_asked(url: str) -> None:
    parts = Targets().check(url)
    assert parts.scheme == "https"
    assert (parts.hostname or "?") in url


@pytest.mark.parametrize("url", REFUSED)
def test_others_may_not(url: str) -> None:
    with pytest.raises(TargetRefused):
        Targets().check(url)


NETWORKS = Targets([ip_network("10.1.0.0/16"), ip_network("127.0.0.0/8")])
DENYING = Targets([ip_network("10.0.0.0/8")], [ip_network("10.1.0.0/16"), ip_network("93.0.0.0/8")])
PORTS = Targets(ports=[443, 9000])


def test_operators_allow_networks_deny_others_and_choose_ports() -> None:
    for targets, url in (
        *((NETWORKS, "http://10.1.2.3:8000/"), (DENYING, "https://10.2.0.1/")),
        *((PORTS, "https://example.com/"), (PORTS, "https://93.184.215.14:9000/")),
    ):
        assert targets.check(url).hostname
    for targets, url, text in (
        (NETWORKS, "http://10.2.0.1/", None),
        *((DENYING, f"https://{host}/", None) for host in ("10.1.0.1", "[::ffff:10.1.0.1]")),
        (DENYING, "https://93.184.215.14/", None),
        *(
            (PORTS, f"https://{host}/", "443, 9000")
            for host in ("example.com:8443", "93.184.215.14:22")
        ),
    ):
        with pytest.raises(TargetRefused, match=text):
            targets.check(url)


def test_one_that_takes_all_it_gets_leaves_half() -> None:
    places = Places(10)
    assert [places.take("slow") for _ in range(10)].count(True) == 5
    assert [places.take("other") for _ in range(10)].count(True) == 3
    assert places.take("third")


async def test_who_has_none_gets_the_next() -> None:
    places = Places(2)
    assert places.take("slow")
    assert not places.take("slow")
    assert places.take("other")
    more = asyncio.create_task(places.wait("slow"))
    first = asyncio.create_task(places.wait("new"))
    await asyncio.sleep(0)
    places.give("other")
    await first
    assert not more.done()
    places.give("new")
    places.give("slow")
    await more


async def test_a_place_is_not_lost_with_the_one_that_waited_for_it() -> None:
    places = Places(1)
    await places.wait("a")
    waits = [asyncio.create_task(places.wait(name)) for name in ("b", "c", "d")]
    await asyncio.sleep(0)
    waits[1].cancel()
    await asyncio.sleep(0)
    places.give("a")
    waits[0].cancel()  # it was woken, and has not run yet
    await asyncio.wait_for(waits[2], 5)
    assert waits[1].cancelled()
    assert waits[0].cancelled()
    assert not places.take("e")
    places.give("d")
    assert places.take("e")


async def test_several_are_taken_together_or_none() -> None:
    places = Places(10)
    assert places.take("a", 4)
    assert not places.take("b", 7)
    coming = asyncio.create_task(places.wait("b", 7))
    await asyncio.sleep(0)
    assert not coming.done()
    places.give("a", 4)
    await coming
    assert not places.take("c", 4)
    places.give("b", 7)
    assert places.take("c", 99)  # more than there are: all
    places.give("c", 99)
    assert places.take("d", 10)
