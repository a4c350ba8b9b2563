"""Webhooks reach what operators allow, at the address that was judged, and take their share."""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import suppress
from ipaddress import ip_network
from pathlib import Path

import pytest

from headgate.app.automation.targets import NameUnknown, Places, TargetRefused, Targets
from headgate.app.automation.webhooks import SENDS_MAX, Sender
from tests.api.transport.certificates import Authority
from tests.conditions import until
from tests.unit.app.automation.host import LOCAL, OK, Host

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
        (NETWORKS, "http://10.2.0.1/", "--push-allow .*push_allow"),
        (NETWORKS, "http://93.184.215.14/", "--push-allow"),
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


async def test_a_request_is_sent_with_its_headers_and_its_host() -> None:
    sender, host = Sender(LOCAL, "https://gw.example"), Host(OK)
    async with host.open():
        named = host.url.replace("127.0.0.1", "localhost")
        assert await sender.post(named, b"{}", {"X-Own": "1"}, within_s=5) == (200, b"ok", None)
        await sender.close()
    head = host.received[0].decode()
    port = host.url.rpartition(":")[2].partition("/")[0]
    assert head.startswith("POST /x?a=1 HTTP/1.1\r\n")
    assert f"host: localhost:{port}\r\n" in head.lower()
    assert "x-own: 1" in head.lower()
    assert "User-Agent: Headgate/" in head
    assert " (https://gw.example)\r\n" in head


async def test_a_redirect_is_an_answer_and_one_that_does_not_end_in_time_is_given_up() -> None:
    head = b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\nContent-Length: 0\r\n\r\n"
    sender, host = Sender(LOCAL), Host(head, OK[:-1])
    async with host.open():
        assert (await sender.post(host.url, b"", {}, within_s=5)).status == 302
        with pytest.raises(TimeoutError):
            await sender.post(host.url, b"", {}, within_s=0.1)
        await sender.close()
    assert host.connections == 1


async def test_a_connection_is_kept_for_its_host_and_for_no_other_at_the_same_address() -> None:
    async def keep(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        own = list[str]()
        hosts.append(own)
        with suppress(asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                own.append(head.lower().partition("host: ")[2].partition(":")[0])
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    hosts = list[list[str]]()
    sender = Sender(LOCAL)
    async with await asyncio.start_server(keep, "127.0.0.1", 0) as server:
        place = f":{server.sockets[0].getsockname()[1]}/"
        for host in ("127.0.0.1", "localhost", "127.0.0.1", "localhost"):
            assert (await sender.post(f"http://{host}{place}", b"", {}, within_s=5)).status == 200
        await sender.close()
    assert hosts == [["127.0.0.1"] * 2, ["localhost"] * 2]


async def test_every_connection_is_judged_by_the_address_behind_its_name() -> None:
    async def look_up(name: str) -> list[str]:
        asked.append(name)
        return addresses.pop(0)

    asked = list[str]()
    host = Host(OK.replace(b"\r\n", b"\r\nConnection: close\r\n", 1), ends=True)
    async with host.open():
        port = host.url.rpartition(":")[2].partition("/")[0]
        inward = [["127.0.0.1"], ["::ffff:127.0.0.1"], ["0.0.0.0"], ["fe80::1"], ["10.0.0.1"]]
        addresses = [*inward, []]
        sender = Sender(Targets(ports=[int(port)]), look_up=look_up)
        for _ in inward:
            with pytest.raises(TargetRefused):
                await sender.post(f"https://changing.example:{port}/", b"", {}, within_s=5)
        with pytest.raises(NameUnknown):
            await sender.post(f"https://changing.example:{port}/", b"", {}, within_s=5)
        await sender.close()
        assert (asked, host.received) == (["changing.example"] * 6, [])

        addresses = [["127.0.0.1"], ["127.0.0.2"]]  # it changes between two requests
        only = Targets([ip_network("127.0.0.1/32")])
        sender = Sender(only, look_up=look_up)
        assert (await sender.post(f"http://changing.example:{port}/", b"", {}, within_s=5)).status
        with pytest.raises(TargetRefused):
            await sender.post(f"http://changing.example:{port}/", b"", {}, within_s=5)
        await sender.close()
    assert len(host.received) == 1


@pytest.mark.parametrize("host", INWARD)
@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_no_spelling_of_an_address_leads_inward(scheme: str, host: str) -> None:
    """`send` does not look at the URL: what is refused here is the address of the connection."""

    async def look_up(name: str) -> list[str]:  # as the system does, which knows odd spellings
        return [socket.inet_ntoa(socket.inet_aton(name))]

    listening = Host()
    async with listening.open():
        port = listening.url.rpartition(":")[2].partition("/")[0]
        sender = Sender(Targets(ports=[int(port)]), look_up=look_up)
        with pytest.raises(OSError, match=r".+"):
            await sender.send(f"{scheme}://{host}:{port}/", b"", {}, within_s=5)
        await sender.close()
    assert listening.connections == 0


async def test_a_certificate_that_nobody_trusts_ends_the_connection(tmp_path: Path) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.append(await reader.read())
        writer.close()

    received = list[bytes]()
    authority = Authority(tmp_path)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(authority.certificate, authority.key)
    sender = Sender(LOCAL)
    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls) as server:
        url = f"https://localhost:{server.sockets[0].getsockname()[1]}/"
        with pytest.raises(OSError, match="certificate"):
            await sender.post(url, b"secret", {}, within_s=5)
        await sender.close()
    assert received == []


async def test_a_name_that_nobody_knows_is_an_error_of_the_network() -> None:
    sender = Sender(Targets())
    with pytest.raises(NameUnknown, match="no-such-host"):
        await sender.post("https://no-such-host.invalid/", b"", {}, within_s=5)
    with pytest.raises(TargetRefused):
        await sender.post("https://localhost/", b"", {}, within_s=5)
    await sender.close()


async def test_a_host_that_hangs_keeps_no_other_from_being_asked() -> None:
    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        begun.append(await reader.readuntil(b"\r\n\r\n"))
        await reader.read()
        writer.close()

    begun, sender = list[bytes](), Sender(LOCAL)
    async with await asyncio.start_server(hang, "127.0.0.2", 0) as server:
        url = f"http://127.0.0.2:{server.sockets[0].getsockname()[1]}/"
        sends = [
            asyncio.create_task(sender.post(url, b"", {}, within_s=600)) for _ in range(SENDS_MAX)
        ]
        await until(lambda: len(begun) == SENDS_MAX // 2)
        with pytest.raises(TimeoutError):
            await sender.post(url, b"", {}, within_s=0.01)  # the wait for a place counts
        other = Host(OK)
        async with other.open():
            assert (await sender.post(other.url, b"", {}, within_s=60)).status == 200
        assert len(begun) == SENDS_MAX // 2
        for send in sends:
            send.cancel()
        await asyncio.wait(sends)
        await sender.close()
