"""One gateway for the matrix, with a key for each verb and case."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio

from headgate.app.auth.grants import Verb
from tests.api.auth.matrix import CASES, grant_of
from tests.api.auth.secured import Secured, secured
from tests.key_files import EVERYTHING


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Secured]:
    folder = tmp_path_factory.mktemp("keys")
    async with secured(folder) as running:
        for stream in ("mine.a", "mine.", "mine", "yours.a"):
            for group in ("g", "h"):
                await running.live.create_group(stream, group)
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(gateway: Secured) -> AsyncIterator[httpx.AsyncClient]:
    """A client without a credential: each request says whose it is."""
    async with gateway.client(None) as http:
        yield http


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def keys(gateway: Secured) -> dict[tuple[Verb, str], str]:
    """A key for each verb and case."""

    def add_all() -> dict[tuple[Verb, str], str]:
        return {
            (verb, case.name): gateway.keys.add(grant)
            for verb in Verb
            for case in CASES
            if (grant := grant_of(verb, case)) is not None
        }

    added = await asyncio.to_thread(add_all)
    await gateway.key(EVERYTHING)  # once this is known, so are those before it
    return added


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ended(gateway: Secured) -> dict[str, str]:
    """Keys that allowed everything, and have ended."""
    expired = await asyncio.to_thread(lambda: gateway.keys.add(EVERYTHING, expires_at_ms=1))
    revoked = await gateway.key(EVERYTHING)
    await gateway.revoke(revoked)
    async with gateway.client(revoked) as http, asyncio.timeout(10):
        while (await http.get("/v1/limits")).status_code != 401:
            await asyncio.sleep(0.01)
    return {"expired": expired, "revoked": revoked, "unknown": revoked[:-1] + "-"}
