"""A backend has the abilities that it claims, and no others."""

from contextlib import nullcontext

import pytest

from headgate.app.backends.port import Ability, Backend, Way
from headgate.app.backends.remote.messages import REQUESTS
from headgate.engine.config import FieldName, Patch, StreamConfig
from headgate.engine.errors import NotSupported
from headgate.engine.requests.commits import CommitSteps
from headgate.engine.requests.deliveries import ReadGroups
from headgate.engine.requests.entries import (
    CloseRange,
    OpenRanges,
    ReadOn,
    ReadPattern,
    TrimArchive,
)
from headgate.engine.requests.groups import ListKeys
from headgate.engine.requests.keyspace import ChangeDefaults
from headgate.engine.requests.streams import CreateStream, UpdateStream
from headgate.engine.requests.tables import DeleteRow, PutRow, ReadRow, ReadTable
from tests.contract.backends import SURVIVES, Kind


async def test_a_backend_says_what_it_can(kind: Kind, backend: Backend) -> None:
    assert backend.abilities == kind.can - {SURVIVES}


async def test_a_backend_says_how_it_carries_out_each_request(kind: Kind, backend: Backend) -> None:
    refused = {request for request in REQUESTS if backend.way_of(request) is Way.NOT}
    of_servers = {OpenRanges, ReadOn, CloseRange, ChangeDefaults, TrimArchive}
    of_servers |= {
        ReadPattern,
        ReadGroups,
        ListKeys,
        ReadTable,
        ReadRow,
        PutRow,
        DeleteRow,
        CommitSteps,
    }
    assert refused == (of_servers if kind.servers else set())


async def test_servers_refuse_to_make_a_stream_a_table(kind: Kind, backend: Backend) -> None:
    await backend.perform(CreateStream(b"orders"))
    for request in (
        CreateStream(b"stock", StreamConfig(key_field=FieldName(b"sku"))),
        UpdateStream(b"orders", Patch.of(StreamConfig, key_field=FieldName(b"sku"))),
    ):
        with pytest.raises(NotSupported) if kind.servers else nullcontext():
            await backend.perform(request)


async def test_what_an_ability_needs_is_there_with_it(backend: Backend) -> None:
    there = {Ability.CLAIM_FEED: backend.claim_feed, Ability.JOURNAL: backend.journal}
    present = {ability for ability, part in there.items() if part is not None}
    assert present == backend.abilities & set(there)
