"""Compaction under load: a group, a follower and a lake lose nothing by it, nor by kills."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random
from typing import Any

from deploy.local_cluster.waiting import until
from headgate.client.blocking import Client
from headgate.pipeline.lake import Lake
from tests.pipeline.gateway import ROOT
from tests.pipeline.jobs import PATIENCE_S
from tests.pipeline.test_tables import SEED, STREAM, Run, Sizes

GROUP = "billing"
CONSUMERS = ("a", "b")
FAILED_SHARE = 0.05
BACKLOG_MAX = 5_000  # entries that no consumer has had yet
SIZES = Sizes(changes=40_000, keys=1_000, kills=5, walks=10, whole_walks=9, batch=200)
_CONFIG = {"retain": "latest", "compact_after_ms": 0, "tombstone_ms": 0, "archived_until_ms": 0}
_JOBS = (("archive",), ("trim", "--superseded"))


class LoadedRun(Run):
    """Changes that others read meanwhile; it is not far ahead of the group."""

    def __init__(self, data_dir: Path) -> None:
        super().__init__(data_dir, SEED, SIZES, _CONFIG)
        self.seen: set[str] = set()
        self.acked: set[str] = set()  # what has failed has to come again
        with Client(self.gateway.url) as client:
            client.group(STREAM, GROUP).create(start="0", policy={"claim_idle_ms": 5_000})

    def _append(self, number: int, drafts: list[dict[str, Any]]) -> list[str]:
        ids = super()._append(number, drafts)
        wanted = len(self.log) - BACKLOG_MAX
        until(lambda: len(self.seen) > wanted, PATIENCE_S, "the group has read")
        return ids

    def consume(self, name: str) -> None:
        """Read as a consumer of the group until the stream is closed; some entries fail."""
        chance = Random(f"{SEED} {name}")
        with (
            Client(self.gateway.url) as client,
            client.group(STREAM, GROUP).consume(consumer=name, credit=256) as jobs,
        ):
            for job in jobs:
                self.seen.add(job.id)
                if chance.random() < FAILED_SHARE:
                    job.nack("it failed", delay_ms=chance.choice([0, 500]))
                else:
                    job.ack()
                    self.acked.add(job.id)

    def follow(self) -> dict[str, object]:
        """Return the rows as a follower has them once the stream is closed."""
        rows: dict[str, object] = {}
        with Client(self.gateway.url) as client:
            for key, entry_id, fields in client.stream(STREAM).table().changes():
                rows.pop(key, None)
                if fields is not None:
                    rows[key] = entry_id, fields
        return rows

    @contextmanager
    def closing_stream(self) -> Iterator[None]:
        """Close the stream at the end: so consumers and followers end, too."""
        try:
            yield
        finally:
            with Client(self.gateway.url) as client:
                client.stream(STREAM).close()

    @property
    def compacted_count(self) -> int:
        with Client(self.gateway.url) as client:
            info = client.stream(STREAM).info()
        return info["entries_added"] - info["length"]


class LakeJobs:
    """A lake that the stream goes into again and again, so that it may be compacted."""

    def __init__(self, url: str, lake: Path) -> None:
        self._flags = ("--url", url, "--streams", STREAM, "--lake", str(lake), "--json")
        self._lake = lake
        self._end = threading.Event()

    def run(self) -> None:
        """Archive all there is, and let the gateway compact it."""
        for words in _JOBS:
            code, output = self._job(*words)
            assert code == 0, output

    @contextmanager
    def running(self) -> Iterator[None]:
        """Do so while the context lasts; the gateway may be killed meanwhile."""
        with ThreadPoolExecutor(1) as pool:
            ending = pool.submit(self._go_on)
            try:
                yield
            finally:
                self._end.set()
            ending.result()

    def _go_on(self) -> None:
        while not self._end.is_set():
            for words in _JOBS:
                _, output = self._job(*words)
                assert "lacks" not in output, output
                assert "were trimmed" not in output, output

    def _job(self, *words: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-m", "headgate.pipeline.cli", *words, *self._flags],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        output = done.stdout + done.stderr
        assert "Traceback" not in output, output
        return done.returncode, output

    def ids(self) -> list[str]:
        batches = Lake(str(self._lake)).arrow(STREAM)
        return [entry_id for batch in batches for entry_id in batch.column("id").to_pylist()]


def test_a_group_a_follower_and_a_lake_lose_nothing(tmp_path: Path) -> None:
    with closing(LoadedRun(tmp_path / "data")) as run, ThreadPoolExecutor(3) as pool:
        jobs = LakeJobs(run.gateway.url, tmp_path / "lake")
        consuming = [pool.submit(run.consume, name) for name in CONSUMERS]
        following = pool.submit(run.follow)
        with run.closing_stream(), jobs.running():
            run.append_all()
            compacted_count = run.compacted_count
        for each in consuming:
            each.result()
        jobs.run()
        until(lambda: run.compacted_count > compacted_count, PATIENCE_S, "more is compacted")
        ids = [entry_id for entry_id, _ in run.log]
        assert jobs.ids() == ids
        assert run.acked == set(ids)
        assert following.result() == run.last_table()
        assert [as_of for as_of, _ in run.tables()] == list(run.walked)
        assert compacted_count
