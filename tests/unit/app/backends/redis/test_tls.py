"""A Redis that is reached over TLS, by a user with a password."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trustme
from blockbuster import blockbuster_ctx

from deploy.local_cluster.keeper import Keeper
from deploy.local_cluster.server import Server, free_ports
from headgate.app.backends.redis.address import Tls, read_url
from headgate.app.backends.redis.backend import RedisBackend
from headgate.app.backends.redis.client import ClientOptions
from headgate.engine.entry import MIN_ID
from headgate.engine.errors import Disconnected
from headgate.engine.requests.entries import Add
from tests.conditions import until
from tests.contract.calls import S, blocked, drafts, read_after
from tests.servers.programs import redis_server
from tests.system_sockets import system_sockets

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="sockets are counted in /proc")

PASSWORD = "p@ss:word"
LOGIN = "bob:p%40ss%3Aword"


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    """Return the certificate of the authority; that of the server is beside it."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    of_server = authority.issue_cert("127.0.0.1")
    of_server.private_key_pem.write_to_path(tmp_path / "key.pem")
    of_server.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    return tmp_path / "ca.pem"


@pytest.fixture
def address(authority: Path, keeper: Keeper, tmp_path: Path) -> Iterator[str]:
    [port] = free_ports(1)
    options = {
        "tls-port": port,
        "tls-cert-file": tmp_path / "cert.pem",
        "tls-key-file": tmp_path / "key.pem",
        "tls-ca-cert-file": authority,
        "tls-auth-clients": "no",
        "save": "",
    }
    server = Server(redis_server(), tmp_path / "redis", keeper, options=options)
    server.start()
    server.run("ACL", "SETUSER", "bob", "on", f">{PASSWORD}", "~*", "&*", "+@all")
    yield f"127.0.0.1:{port}"
    server.stop()


@asynccontextmanager
async def running(url: str, tls: Tls = Tls()) -> AsyncIterator[RedisBackend]:  # noqa: B008 it is a value
    """Run a backend that has tried to connect, and has no patience."""
    backend = await asyncio.to_thread(
        lambda: RedisBackend(ClientOptions(read_url(url, tls=tls), patience_ms=0))
    )
    at_first = backend.refusal
    task = asyncio.create_task(backend.run())
    await until(lambda: backend.refusal != at_first)
    yield backend
    await backend.close()
    await task
    port = int(url.rpartition(":")[2])
    # TLS ends a connection by an exchange, and a loop that closes does not wait for it.
    await until(lambda: not is_connected(port))


def is_connected(port: int) -> bool:
    """Tell whether a process has a socket that leads there."""
    return any(each.remote_port == port and each.inode for each in system_sockets())


async def test_servers_are_reached_over_tls(address: str, authority: Path) -> None:
    with blockbuster_ctx(["headgate.app"]):  # no file is read for each connection
        async with running(f"rediss://{LOGIN}@{address}", Tls(authority)) as backend:
            [task] = await blocked(backend, read_after(backend, MIN_ID, None))
            await backend.perform(Add(S, drafts(1)))
            assert await task == [1]


async def test_a_certificate_of_nobody_known_is_refused(address: str) -> None:
    async with running(f"rediss://{LOGIN}@{address}") as backend:
        with pytest.raises(Disconnected, match="certificate verify failed"):
            await backend.perform(Add(S, drafts(1)))
        assert "certificate verify failed" in (backend.refusal or "")


async def test_a_wrong_password_is_said_and_not_shown(address: str, authority: Path) -> None:
    async with running(f"rediss://bob:secret@{address}", Tls(authority)) as backend:
        with pytest.raises(Disconnected, match="invalid username-password pair") as raised:
            await backend.perform(Add(S, drafts(1)))
        assert "secret" not in f"{raised.value}{backend.refusal}"


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"cannot use .*no\.pem for TLS: .*No such file"):
        read_url("rediss://localhost", tls=Tls(tmp_path / "no.pem"))
