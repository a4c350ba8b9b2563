"""Logging in to a gateway that has keys and TLS."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import redis
import redis.asyncio
from redis.exceptions import AuthenticationError, ExecAbortError, NoPermissionError

from headgate.app.auth.grants import Grant, Verb
from tests.api.transport.certificates import Authority
from tests.clients.programs import Outcome, run
from tests.conditions import WITHIN_S, eventually
from tests.key_files import EVERYTHING, Keys
from tests.processes.gateway import GatewayProcess


class Secured(NamedTuple):
    """A gateway with TLS that asks for credentials."""

    gateway: GatewayProcess
    authority: Path
    keys: Keys
    everything: str  # a key
    reader: str  # likewise
    reader_id: str

    def run(self, *words: str) -> Outcome:
        place = ["-h", "localhost", "-p", str(self.gateway.redis_port), "--no-auth-warning"]
        return run("redis-cli", *place, "-e", *words)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("secured")
    authority, keys = Authority(folder), Keys(folder / "keys.json")
    everything = keys.add(EVERYTHING)
    reader = keys.add(Grant(streams=["open.*"], do=[Verb.READ]))
    files: dict[str, Any] = {"tls_cert": authority.certificate, "tls_key": authority.key}
    settings = {**files, "keys_file": keys.path, "redis_port": 0}
    gateway = GatewayProcess.started(":memory:", settings)
    yield Secured(gateway, authority.root, keys, everything, reader, keys.ids[reader])
    gateway.terminate()


def test_redis_cli_logs_in(secured: Secured) -> None:
    tls = ["--tls", "--cacert", str(secured.authority)]
    assert secured.run("PING").code == 1  # no TLS
    assert "NOAUTH" in secured.run(*tls, "XLEN", "open.a").errors
    assert "WRONGPASS" in secured.run(*tls, "-a", "hg_wrong_key", "PING").errors
    admin = [*tls, "-a", secured.everything]
    assert secured.run(*admin, "XADD", "open.a", "1-0", "a", "b") == (0, "1-0\n", "")
    assert secured.run(*admin, "XADD", "shut", "1-0", "a", "b").output == "1-0\n"

    reader = [*tls, "--user", secured.reader_id, "--pass", secured.reader]
    assert secured.run(*reader, "XLEN", "open.a") == (0, "1\n", "")
    assert secured.run(*reader, "-3", "XLEN", "open.a").output == "1\n"
    refused = secured.run(*reader, "XADD", "open.a", "2-0", "a", "b")
    assert (refused.code, refused.errors.startswith("NOPERM")) == (1, True)
    assert secured.run(*reader, "XLEN", "shut").errors.startswith("NOPERM")
    user = f"rediss://{secured.reader_id}:{secured.reader}@localhost:{secured.gateway.redis_port}"
    words = ["-u", user, "--cacert", str(secured.authority), "--no-auth-warning", "XLEN", "open.a"]
    assert run("redis-cli", *words).output == "1\n"


@pytest.mark.parametrize("protocol", [2, 3])
def test_redis_py_logs_in(secured: Secured, protocol: int) -> None:
    port, trust = secured.gateway.redis_port, {"ssl_ca_certs": str(secured.authority)}

    def client(credential: str) -> Any:
        url = f"rediss://{credential}@localhost:{port}"
        return redis.Redis.from_url(url, protocol=protocol, **trust)

    with client(f":{secured.everything}") as admin:
        assert admin.xadd(f"open.{protocol}", {"a": "b"}, id="1-0") == b"1-0"
        assert admin.exists(f"open.{protocol}") == 1
    with client(f"{secured.reader_id}:{secured.reader}") as reader:
        assert reader.xrange(f"open.{protocol}") == [(b"1-0", {b"a": b"b"})]
        with pytest.raises(NoPermissionError):
            reader.xadd(f"open.{protocol}", {"a": "b"})
        with pytest.raises(ExecAbortError, match="NOPERM"), reader.pipeline() as pipeline:
            pipeline.xlen(f"open.{protocol}").xlen("shut.3").execute()
    with client(f"{secured.reader_id}:wrong") as stranger, pytest.raises(AuthenticationError):
        stranger.ping()


@pytest.fixture
async def client_of_new_key(secured: Secured) -> AsyncIterator[tuple[str, Any]]:
    """Add a key; yields it, and a client of one connection that has logged in with it."""
    key = await asyncio.to_thread(secured.keys.add, EVERYTHING)
    url = f"rediss://:{key}@localhost:{secured.gateway.redis_port}"
    client = redis.asyncio.Redis.from_url(
        url, ssl_ca_certs=str(secured.authority), max_connections=1
    )
    await eventually(lambda: is_welcome(client), bool)
    yield key, client
    await client.aclose()


async def is_welcome(client: Any) -> bool:
    try:
        return bool(await client.ping())
    except AuthenticationError:
        return False


async def test_a_revoked_key_ends_its_connections(
    secured: Secured, client_of_new_key: tuple[str, Any]
) -> None:
    key, client = client_of_new_key

    async def read() -> None:
        while True:  # a read that waits ends with nothing, and its connection with it
            assert not await client.xread({"open.none": "$"}, block=0)

    await asyncio.to_thread(secured.keys.revoke, key)
    async with asyncio.timeout(WITHIN_S):
        with pytest.raises(redis.ConnectionError):
            await read()
        with pytest.raises(AuthenticationError):  # as it connects anew
            await client.ping()
