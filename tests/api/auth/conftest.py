"""One gateway that asks for credentials; and one for the matrix, with keys for all cases."""

import asyncio
import logging
from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio

from headgate.app.auth.grants import Verb
from headgate.engine.entry import MIN_ID
from headgate.engine.requests.groups import CreateGroup, GroupStart
from tests.api.auth.matrix import CASES, grant_of
from tests.api.auth.secured import Secured, secured
from tests.api.conftest import wipe
from tests.conditions import until
from tests.key_files import EVERYTHING


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def one_secured(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Secured]:
    async with secured(tmp_path_factory.mktemp("keys")) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="session")
async def gateway(one_secured: Secured, caplog: pytest.LogCaptureFixture) -> AsyncIterator[Secured]:
    """A gateway without streams, whose audit log is looked at."""
    caplog.set_level(logging.INFO, "headgate.audit")
    yield one_secured
    await wipe(one_secured.live)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def one_matrix(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Secured]:
    async with secured(tmp_path_factory.mktemp("keys")) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="session")
async def matrix(one_matrix: Secured) -> AsyncIterator[Secured]:
    """The gateway of the matrix, with the streams that it names."""
    perform = one_matrix.live.gateway.backend.perform
    for stream in (b"mine.a", b"mine.", b"mine", b"yours.a"):
        for group in (b"g", b"h"):
            start = GroupStart(MIN_ID)
            await perform(CreateGroup(stream, group, start, create_stream=True, exist_ok=True))
    yield one_matrix
    live = one_matrix.live
    await until(lambda: not live.gateway.metrics.connection_count)
    await live.until_waiting(0)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def client(one_matrix: Secured) -> AsyncIterator[httpx.AsyncClient]:
    """A client without a credential: each request says whose it is."""
    async with one_matrix.client(None) as http:
        yield http


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def keys(one_matrix: Secured) -> dict[tuple[Verb, str], str]:
    """A key for each verb and case."""

    def add_all() -> dict[tuple[Verb, str], str]:
        return {
            (verb, case.name): one_matrix.keys.add(grant)
            for verb in Verb
            for case in CASES
            if (grant := grant_of(verb, case)) is not None
        }

    added = await asyncio.to_thread(add_all)
    await one_matrix.key(EVERYTHING)  # once this is known, so are those before it
    return added


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def ended(one_matrix: Secured) -> dict[str, str]:
    """Keys that allowed everything, and have ended."""
    expired = await asyncio.to_thread(lambda: one_matrix.keys.add(EVERYTHING, expires_at_ms=1))
    revoked = await one_matrix.key(EVERYTHING)
    await one_matrix.revoke(revoked)
    await until(lambda: not one_matrix.knows(revoked))
    return {"expired": expired, "revoked": revoked, "unknown": revoked[:-1] + "-"}
