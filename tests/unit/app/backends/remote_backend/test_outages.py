"""An engine, a worker or a connection goes, and comes back."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from headgate.app.backends.embedded import EmbeddedBackend, EmbeddedOptions, open_embedded
from headgate.app.backends.port import Holding
from headgate.app.backends.remote.backend import RemoteBackend, RemoteOptions
from headgate.app.backends.remote.leases import WorkerLeases
from headgate.app.backends.remote.messages import Hello, OfEngine, TurnedAway, version_of_messages
from headgate.app.backends.remote.server import EngineServer
from headgate.engine.entry import MIN_ID, Draft, EntryId
from headgate.engine.errors import AnswerLost, Disconnected, Invalid
from headgate.engine.requests.bulk import CommitBatch
from headgate.engine.requests.deliveries import ReadGroup
from headgate.engine.requests.entries import Add, Range
from headgate.engine.requests.groups import ListConsumers
from headgate.engine.requests.streams import ListStreams
from tests.behind_socket import listening, options_of, served
from tests.conditions import WITHIN_S, eventually, moment, until
from tests.contract.calls import (
    ANA,
    BEN,
    G,
    S,
    blocked,
    drafts,
    filled,
    got,
    held,
    numbers,
    read_after,
    take,
)
from tests.running import running


@asynccontextmanager
async def engine_at(
    sock: socket.socket, data_dir: Path | None = None
) -> AsyncIterator[EmbeddedBackend]:
    """Serve an engine at a socket while the context lasts; the socket stays."""
    engine = open_embedded(EmbeddedOptions(data_dir))
    async with running(engine):
        serving = asyncio.create_task(EngineServer(engine).run(sock))
        try:
            yield engine
        finally:
            serving.cancel()
            await asyncio.wait({serving})


async def until_held(engine: EmbeddedBackend, expected: dict[int, bytes | None]) -> None:
    await eventually(lambda: held(engine), lambda holders: holders == expected)


async def refused(backend: RemoteBackend) -> None:
    await until(lambda: backend.refusal is not None)


async def test_a_worker_goes_on_when_the_engine_is_back(tmp_path: Path) -> None:
    with listening() as sock:
        async with engine_at(sock, tmp_path) as engine:
            backend = RemoteBackend(options_of(engine, sock))
            work = asyncio.create_task(backend.run())
            await filled(backend, 1)
            [plain] = await blocked(backend, read_after(backend, EntryId(1, 0), None))
            assert await got(backend, take(ANA)) == [1]
            [of_group] = await blocked(backend, got(backend, take(ANA), None))
        with pytest.raises(AnswerLost):  # something may have been delivered
            await of_group
        await refused(backend)
        with pytest.raises(Disconnected):
            await backend.perform(Add(S, drafts(2)))
        assert not plain.done()
        async with engine_at(sock, tmp_path):
            await until(lambda: backend.refusal is None)
            await backend.perform(Add(S, drafts(3)))
            async with asyncio.timeout(WITHIN_S):
                assert await plain == [3]
            assert await numbers(backend) == [1, 3]
            assert await held(backend) == {1: ANA}
        await backend.close()
        await work


async def test_what_the_connections_of_a_dead_worker_held_is_with_others(tmp_path: Path) -> None:
    with listening() as sock:
        async with engine_at(sock, tmp_path) as engine:
            options = options_of(engine, sock)
            async with running(RemoteBackend(options)) as other:
                worker = RemoteBackend(options)
                work = asyncio.create_task(worker.run())
                await filled(worker, 1, 2)
                assert worker.leases is not None
                for consumer, is_temporary in ((ANA, False), (BEN, True)):
                    await worker.leases.register(Holding(S, G, consumer, is_temporary))
                    await got(worker, take(consumer, 1))
                [waiting] = await blocked(other, got(other, take(b"cem"), None))
                claiming = replace(take(b"cem"), claim_released=True)
                [claims] = await blocked(other, got(other, claiming, None))
                work.cancel()  # its connection ends, and nobody says goodbye
                async with asyncio.timeout(WITHIN_S):
                    assert set(await claims) <= {1, 2}
                    while set((await held(engine)).values()) & {ANA, BEN}:
                        await moment()
                names = [each.name for each in await engine.perform(ListConsumers(S, G))]
                assert BEN not in names
                waiting.cancel()


async def test_a_consumer_with_a_connection_to_another_worker_keeps_what_it_holds() -> None:
    with listening() as sock:
        async with engine_at(sock) as engine:
            options = options_of(engine, sock)
            async with running(RemoteBackend(options)) as other:
                worker = RemoteBackend(options)
                work = asyncio.create_task(worker.run())
                await filled(worker, 1)
                for backend in (worker, other):
                    assert backend.leases is not None
                    await backend.leases.register(Holding(S, G, ANA, is_temporary=False))
                await got(worker, take(ANA))
                work.cancel()
                await asyncio.wait({work})
                await other.perform(Add(S, drafts(2)))
                assert (await held(engine))[1] == ANA


# What must not happen


async def exchanged(sock: socket.socket, data: bytes) -> bytes:
    """Send bytes to an engine, and return what it answers before it ends the connection."""
    reader, writer = await asyncio.open_unix_connection(sock.getsockname())
    writer.write(data)
    try:
        async with asyncio.timeout(WITHIN_S):
            return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


def frame(content: bytes) -> bytes:
    return len(content).to_bytes(4) + content


HELLO = frame(msgspec.msgpack.encode([Hello(version_of_messages(), "worker", [])]))


async def test_a_worker_of_another_version_is_turned_away() -> None:
    with listening() as sock:
        async with engine_at(sock):
            hello = msgspec.msgpack.encode([Hello("0", "old", [])])
            answer = await exchanged(sock, frame(hello))
            [turned_away] = msgspec.msgpack.decode(answer[4:], type=list[OfEngine])
            assert isinstance(turned_away, TurnedAway)
            assert "the worker has version 0" in turned_away.why


@pytest.mark.parametrize(
    "data",
    [
        *(b"\xff" * 4, frame(b"nonsense"), frame(b""), frame(b"\xff"), bytes(100)),
        *(HELLO + b"\xff" * 4, HELLO + frame(b"nonsense")),
        frame(msgspec.msgpack.encode([["Call", 1, 2]])),
    ],
    ids=range(8),
)
async def test_damaged_frames_end_a_connection(
    data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with listening() as sock:
        async with engine_at(sock) as engine:
            await exchanged(sock, data)
            assert "broken off" in caplog.text
            async with running(RemoteBackend(options_of(engine, sock))) as backend:
                assert (await backend.perform(Add(S, drafts(1)))).ids


@asynccontextmanager
async def worker_of_engine() -> AsyncIterator[tuple[RemoteBackend, EmbeddedBackend]]:
    """Run an engine, and a worker that uses it."""
    with listening() as sock:
        async with (
            engine_at(sock) as engine,
            running(RemoteBackend(options_of(engine, sock))) as backend,
        ):
            yield backend, engine


async def test_what_cannot_cross_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async with worker_of_engine() as (backend, engine):
        monkeypatch.setattr("headgate.app.backends.remote.frames.MESSAGE_BYTES_MAX", 10_000)
        [waiting] = await blocked(backend, read_after(backend, MIN_ID, None))
        with pytest.raises(Invalid, match="too large"):
            await backend.perform(Add(S, [Draft(None, (b"n", b"x" * 20_000))]))
        with pytest.raises(Invalid, match="int"):
            await backend.perform(Range(S, limit=2**70))
        await engine.perform(Add(b"large", [Draft(None, (b"n", b"x" * 20_000))]))
        with pytest.raises(Invalid, match="too large"):
            await backend.perform(Range(b"large"))
        await backend.perform(Add(S, drafts(1)))
        assert await waiting == [1]


async def test_readers_alike_ask_the_engine_once() -> None:
    async with worker_of_engine() as (backend, engine):
        await filled(backend)
        tasks = await blocked(backend, *(read_after(backend, MIN_ID, None) for _ in range(20)))
        await until(lambda: engine.waiter_count == 1)
        assert backend.waiter_count == 20
        tasks[0].cancel()
        await backend.perform(Add(S, drafts(1)))
        assert await asyncio.gather(*tasks[1:]) == [[1]] * 19
        assert (backend.waiter_count, engine.waiter_count) == (0, 0)


async def test_a_stranded_temporary_consumer_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headgate.app.backends.remote.server._STRANDED_S", 0.3)
    gone, stays = b"temporary-%016x" % 1, b"temporary-%016x" % 2
    with listening() as sock:
        async with engine_at(sock, tmp_path) as engine:
            await filled(engine, 1, 2)
            for consumer in (gone, stays):
                await engine.perform(ReadGroup(G, consumer, take(ANA).cursors, 1))
        async with (
            engine_at(sock, tmp_path) as engine,
            running(RemoteBackend(options_of(engine, sock))) as backend,
        ):
            assert backend.leases is not None
            await backend.leases.register(Holding(S, G, stays, is_temporary=True))
            await until_held(engine, {1: None, 2: stays})


async def test_a_long_batch_crosses_in_portions_and_is_appended_as_a_whole() -> None:
    async with worker_of_engine() as (backend, _):
        batch = {b"a": drafts(*range(1, 2_501)), b"b": drafts(7), b"c": drafts(*range(5, 1_700))}
        committed = await backend.perform(CommitBatch(b"w", 1, batch))
        assert [(each.stream, each.entries) for each in committed.streams] == [
            *((b"a", 2_500), (b"b", 1), (b"c", 1_695))
        ]
        assert await numbers(backend, b"a") == list(range(1, 2_501))


async def test_a_worker_that_ends_without_an_engine_has_not_failed(tmp_path: Path) -> None:
    backend = RemoteBackend(RemoteOptions(tmp_path / "engine.sock"))
    async with running(backend):
        assert backend.leases is not None
        backend.drain()
        holding = Holding(b"jobs", b"workers", b"me", is_temporary=False)
        backend.leases.release_later(holding, {EntryId(1, 0): 1})
        with pytest.raises(Disconnected):
            await backend.perform(ListStreams(after=None, limit=1))


async def test_a_connection_that_was_refused_takes_nothing_away_from_another_one() -> None:
    holding = Holding(b"jobs", b"workers", b"me", is_temporary=False)
    engine = open_embedded(EmbeddedOptions(None))
    async with running(engine), AsyncExitStack() as serving:
        options = await serving.enter_async_context(served(engine))
        async with running(RemoteBackend(options)) as backend:
            leases = backend.leases
            assert isinstance(leases, WorkerLeases)
            await leases.register(holding)
            await serving.aclose()
            with pytest.raises(Disconnected):  # once the worker has noticed that the engine is away
                await backend.perform(ListStreams(after=None, limit=1))
            with pytest.raises(Disconnected):
                await leases.register(holding)
            await leases.unregister(holding)
            assert leases.holdings == [holding]  # the next engine is told so
