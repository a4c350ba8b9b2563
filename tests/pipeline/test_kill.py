"""Exactly once is shown by kills: of the driver, of executors, of the gateway, at any moment.

`KILLS=3 KILL_ENTRIES=200000 pytest tests/pipeline/test_kill.py` is the long way.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from headgate.client.blocking import Client
from headgate.pipeline.lake import Lake
from tests.pipeline.command import Command, command
from tests.pipeline.gateway import Gateway
from tests.pipeline.jobs import job

__all__ = ["command"]

KILLS = int(os.environ.get("KILLS", "1"))
ENTRIES = int(os.environ.get("KILL_ENTRIES", "3000"))
_BATCHES = 5 * KILLS
_SLICES = 3 * KILLS
_CLUSTER = ("--master", "local-cluster[2,1,1024]")


class Trip:
    """A stream into a lake, and from there into another stream with the ids it had."""

    def __init__(self, gateway: Gateway, name: str, folder: Path) -> None:
        self.gateway = gateway
        self.name = name
        self.lake = folder / "lake"
        url = ("--url", gateway.url, "--streams", name, "--lake", str(self.lake))
        self.archive = ("archive", *url, "--max-offsets", str(ENTRIES // _BATCHES))
        replay = ("replay", *url, "--ids", "same", "--rate", str(ENTRIES // _SLICES))
        self.replays = {
            f"{name}-{kind}": (
                *(*replay, "--to", f"{name}-{kind}", "--checkpoint", str(folder / kind)),
                *way,
            )
            for kind, way in (("in-memory", ()), ("on-spark", ("--spark",)))
        }
        for begin in range(0, ENTRIES, 10_000):
            fields = [
                [("n", str(n)), ("é", "ü")] for n in range(begin, min(begin + 10_000, ENTRIES))
            ]
            with Client(gateway.url) as client:
                column = pa.array(fields, pa.map_(pa.string(), pa.string()))
                client.stream(name).append_batch(pa.RecordBatch.from_pydict({"fields": column}))

    @property
    def ways(self) -> tuple[tuple[tuple[str, ...], Callable[[], int]], ...]:
        """The jobs there and back, and how much each has done."""
        replays = ((words, partial(self.replayed, to)) for to, words in self.replays.items())
        return (self.archive, self.archived), *replays

    def archived(self) -> int:
        """Return how many rows the lake has."""
        if not DeltaTable.is_deltatable(str(self.lake)):
            return 0
        return sum(file.row_count for file in Lake(self.lake).files())

    def replayed(self, to: str) -> int:
        """Return the number of replayed entries."""
        return self.gateway.count(to)

    def check_lake(self) -> None:
        """See that the lake has each entry once, in order, as it was."""
        wanted = self.gateway.entries(self.name)
        assert len(wanted) == ENTRIES
        held = [row for batch in Lake(self.lake).arrow(self.name) for row in _rows(batch)]
        assert held == [(entry["id"], entry["fields"]) for entry in wanted]

    def check_replayed(self) -> None:
        """See that the other streams have what the first one has."""
        for to in self.replays:
            assert self.gateway.entries(to) == self.gateway.entries(self.name)


def _rows(batch: pa.RecordBatch) -> Iterator[tuple[str, dict[str, str]]]:
    fields = batch.column("fields").to_pylist()
    for id_, pairs in zip(batch.column("id").to_pylist(), fields, strict=True):
        yield id_, {name: value.decode() for name, value in pairs}


@pytest.fixture
def trip(gateway: Gateway, name: str, tmp_path: Path) -> Trip:
    return Trip(gateway, name, tmp_path)


def test_a_driver_that_is_killed_again_and_again_loses_and_doubles_nothing(
    trip: Trip, command: Command
) -> None:
    for words, done in trip.ways:
        for _ in range(KILLS):
            with job(words) as driver:
                driver.wait_for_more(done)
        assert 0 < done() < ENTRIES
        command.run(*words[:1], *words[3:])
    trip.check_lake()
    trip.check_replayed()


@pytest.mark.long
def test_executors_that_are_killed_lose_and_double_nothing(trip: Trip) -> None:
    with job((*trip.archive, *_CLUSTER)) as driver:
        for _ in range(KILLS):
            driver.wait_for_more(trip.archived)
            driver.kill_executor()
        assert trip.archived() < ENTRIES
        driver.finish()
    trip.check_lake()
