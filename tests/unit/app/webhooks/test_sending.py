"""A target is asked once, at the address that was judged, and takes no more than its share."""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import suppress
from ipaddress import ip_network
from pathlib import Path

import pytest

from headgate.app.webhooks.sending import SENDS_MAX, Sender
from headgate.app.webhooks.targets import NameUnknown, TargetRefused, Targets
from tests.api.transport.certificates import Authority
from tests.conditions import until
from tests.unit.app.webhooks.host import LOCAL, OK, Host
from tests.unit.app.webhooks.test_targets import INWARD


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
