"""A table is the same in the gateway, on Spark and in a dictionary, at any id, through kills."""

from __future__ import annotations

import hashlib
import json
import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import httpx
import pytest
from pyspark.sql import DataFrame, SparkSession

from deploy.local_cluster.waiting import until
from headgate.pipeline.offsets import BEGINNING
from tests.pipeline.gateway import Gateway
from tests.pipeline.jobs import PATIENCE_S
from tests.pipeline.test_cold_tier import archive

SEED = int(os.environ.get("HEADGATE_TEST_SEED", "20261129"))
STREAM = "stock"
KEY_BYTES_MAX = 1_024
BATCHES_MEANWHILE = 5  # of a walk
LAKE_EVERY = 4  # ids at which the lake is read, too
_LINES = {"Accept": "application/x-ndjson"}
_TEXT = "concat_ws('|', key, id, coalesce(fields['n'], ''), CAST(size(fields) AS string))"
_TOTAL = f"sum(CAST(conv(substr(md5({_TEXT}), 1, 15), 16, 10) AS decimal(20, 0)))"


class Digest(NamedTuple):
    """Rows in any order: how many, and the sum of a number of each."""

    rows: int = 0
    total: int = 0

    def with_row(self, key: str, entry_id: str, fields: Mapping[str, str]) -> Digest:
        text = f"{key}|{entry_id}|{fields.get('n', '')}|{len(fields)}"
        number = hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()[:15]
        return Digest(self.rows + 1, self.total + int(number, 16))


Table = dict[str, tuple[str, dict[str, str]]]
"""Ids and fields by key."""


def digest_of(table: Table, prefix: str = "") -> Digest:
    digest = Digest()
    for key, row in table.items():
        if key.startswith(prefix):
            digest = digest.with_row(key, *row)
    return digest


def fields_of(draft: Mapping[str, Any]) -> dict[str, str]:
    return draft.get("fields") or dict(draft["pairs"])


def key_of(fields: Mapping[str, str]) -> str | None:
    """Return the key of the row that an entry changes; None: it changes none."""
    key = fields.get("sku")
    return None if key is None or len(key) > KEY_BYTES_MAX else key


@dataclass(frozen=True)
class Sizes:
    """The sizes of a run.

    Attributes:
        changes: entries to append.
        keys: keys at most.
        kills: ends of the gateway, each while entries are appended.
        walks: walks over the table, while entries are appended.
        whole_walks: those of them over all keys; a gateway takes 0.06 ms of its processor for a row
            whose entry is far from that of the row before. Others are over keys with a prefix.
        batch: entries of one append.
    """

    changes: int
    keys: int
    kills: int
    walks: int
    whole_walks: int
    batch: int


class Run:
    """Random changes of a table, appended to a gateway that is killed again and again."""

    def __init__(
        self, data_dir: Path, seed: int, sizes: Sizes, config: Mapping[str, object] | None = None
    ) -> None:
        """Start a gateway.

        Args:
            data_dir: of its journal.
            seed: of everything that is random.
            sizes: of the run.
            config: further settings of the stream.
        """
        self.gateway = Gateway(data_dir)
        self.log: list[tuple[str, dict[str, Any]]] = []  # ids and drafts, as they were acknowledged
        self.walked: dict[str, tuple[str, Digest]] = {}  # prefix and rows, as of an id
        self._random = Random(seed)
        self._keys = sizes.keys
        self._batch = sizes.batch
        self._pool = ThreadPoolExecutor(2)
        self._batches = sizes.changes // sizes.batch
        count = sizes.kills + sizes.walks - 1  # one walk is at the beginning
        chosen = self._random.sample(range(1, self._batches), count)
        self._kills, self._walks = set(chosen[: sizes.kills]), set(chosen[sizes.kills :])
        self._whole_walks = set(chosen[-sizes.whole_walks :])
        settings = {"key_field": "sku", **(config or {})}
        self.gateway.http.put(f"/v1/streams/{STREAM}", json=settings).raise_for_status()

    def close(self) -> None:
        self._pool.shutdown()
        self.gateway.stop()

    def append_all(self) -> None:
        """Append the changes; meanwhile walk over the table, and kill the gateway."""
        walk = self._pool.submit(self.walk, "")
        begun = 0
        for number in range(self._batches):
            drafts = [self._draft(number * self._batch + at) for at in range(self._batch)]
            is_due = number in self._walks or number in self._kills
            if is_due or number - begun == BATCHES_MEANWHILE:
                walk.result()
            append = self._append_through_a_kill if number in self._kills else self._append
            self.log += zip(append(number, drafts), drafts, strict=True)
            if number in self._walks:  # behind an append, so as of another id than the last one
                prefix = "" if number in self._whole_walks else f"k{self._random.randrange(1, 50)}"
                walk, begun = self._pool.submit(self.walk, prefix), number
        walk.result()

    def _draft(self, number: int) -> dict[str, Any]:
        key = f"k{self._random.randrange(self._keys)}"
        kind = self._random.random()
        if kind < 0.125:
            return {"fields": {"sku": key, "deleted": ""}}
        if kind < 0.13:
            return {"fields": {"sku": key.ljust(KEY_BYTES_MAX + 1, "x"), "n": str(number)}}
        if kind < 0.14:
            return {"fields": {"n": str(number)}}
        if kind < 0.15:
            return {"pairs": [["sku", "first"], ["n", "first"], ["sku", key], ["n", str(number)]]}
        return {"fields": {"sku": key, "n": str(number)}}

    def _append(self, number: int, drafts: list[dict[str, Any]]) -> list[str]:
        answer = self.gateway.http.post(
            f"/v1/streams/{STREAM}/entries/batch",
            json=drafts,
            headers={"Idempotency-Key": f"batch {number}"},
        )
        answer.raise_for_status()
        ids: list[str] = answer.json()["ids"]
        return ids

    def _append_through_a_kill(self, number: int, drafts: list[dict[str, Any]]) -> list[str]:
        appending = self._pool.submit(self._append, number, drafts)
        for _ in range(self._random.randrange(4)):  # it may come far meanwhile
            self.gateway.http.get(f"/v1/streams/{STREAM}")
        self.gateway.kill()
        self.gateway.start()
        try:
            return appending.result()
        except httpx.TransportError:  # the answer is lost: has it been appended?
            return self._append(number, drafts)

    def walk(self, prefix: str) -> None:
        """Note what the rows are, and the id that they are as of."""
        what = "the table is indexed, which it is anew after a kill"
        until(partial(self._walked, prefix), PATIENCE_S, what)

    def _walked(self, prefix: str) -> bool:
        path = f"/v1/streams/{STREAM}/table"
        params = {"prefix": prefix, "limit": str(10_000_000)}
        digest = Digest()
        with self.gateway.http.stream("GET", path, params=params, headers=_LINES) as answer:
            if answer.status_code == httpx.codes.SERVICE_UNAVAILABLE:
                return False
            answer.raise_for_status()
            for line in answer.iter_lines():
                row = json.loads(line)
                digest = digest.with_row(row["key"], row["id"], row["fields"])
            self.walked[answer.headers["Headgate-As-Of"]] = prefix, digest
        return True

    def states(self) -> Iterator[tuple[str, Table]]:
        """Yield what the rows have to be at each id."""
        rows: Table = {}
        yield BEGINNING, rows
        for entry_id, draft in self.log:
            fields = fields_of(draft)
            key = key_of(fields)
            if key is not None:
                rows.pop(key, None)
                if "deleted" not in fields:
                    rows[key] = entry_id, fields
            yield entry_id, rows

    def last_table(self) -> Table:
        [(_, rows)] = deque(self.states(), 1)
        return rows

    def tables(self) -> Iterator[tuple[str, Table]]:
        """Yield what the rows have to be at the ids of the walks, once these have shown them."""
        for as_of, table in self.states():
            if as_of in self.walked:
                prefix, digest = self.walked[as_of]
                assert (as_of, digest) == (as_of, digest_of(table, prefix))
                yield as_of, table

    def on_spark(
        self, spark: SparkSession, ids: Iterable[str], **options: object
    ) -> dict[str, Digest]:
        """Return what the rows are on Spark at ids."""
        reading = spark.read.format("headgate").options(url=self.gateway.url, stream=STREAM)
        table = reading.options(view="table", **{name: str(o) for name, o in options.items()})
        return {as_of: _digest_of(table.option("asOf", as_of).load()) for as_of in ids}

    def on_spark_now(self, spark: SparkSession) -> Digest:
        """Return what the rows are on Spark at the end."""
        reading = spark.read.format("headgate").options(url=self.gateway.url, stream=STREAM)
        return _digest_of(reading.options(view="table").load())


def _digest_of(rows: DataFrame) -> Digest:
    [row] = rows.selectExpr("count(*)", _TOTAL).collect()
    return Digest(row[0], int(row[1] or 0))


SHORT = Sizes(changes=5_000, keys=500, kills=1, walks=5, whole_walks=3, batch=50)
LONG = Sizes(changes=1_000_000, keys=50_000, kills=5, walks=100, whole_walks=10, batch=1_000)
COMPACTED = Sizes(changes=200_000, keys=20_000, kills=5, walks=92, whole_walks=90, batch=1_000)


@pytest.mark.parametrize(
    "sizes",
    [pytest.param(SHORT, id="short"), pytest.param(LONG, id="long", marks=pytest.mark.long)],
)
def test_rows_at_an_id_are_those_of_a_dictionary(
    sizes: Sizes, spark: SparkSession, tmp_path: Path
) -> None:
    with closing(Run(tmp_path / "data", SEED, sizes)) as run:
        run.append_all()
        ids = list(run.walked)
        on_spark = run.on_spark(spark, ids)
        archive(run.gateway, STREAM, run.log[len(run.log) // 2][0], tmp_path / "lake")
        run.gateway.trim(STREAM, min_id=run.log[len(run.log) // 3][0])
        with_lake = run.on_spark(spark, ids[::LAKE_EVERY], coldTier=tmp_path / "lake")
        compared = []
        for as_of, table in run.tables():
            assert on_spark[as_of] == with_lake.get(as_of, on_spark[as_of]) == digest_of(table)
            compared.append(as_of)
        assert compared == ids
        assert len(ids) == sizes.walks


@pytest.mark.long
def test_compaction_changes_no_row_and_leaves_only_these(
    spark: SparkSession, tmp_path: Path
) -> None:
    config = {"retain": "latest", "compact_after_ms": 0, "tombstone_ms": 0}
    with closing(Run(tmp_path / "data", SEED, COMPACTED, config)) as run:
        run.append_all()
        assert [as_of for as_of, _ in run.tables()] == list(run.walked)
        assert len(run.walked) == COMPACTED.walks
        keyless = sum(key_of(fields_of(draft)) is None for _, draft in run.log)
        table = run.last_table()

        def is_compacted() -> bool:
            run.walk("")
            assert run.walked[run.log[-1][0]] == ("", digest_of(table))
            return run.gateway.count(STREAM) == len(table) + keyless

        run.gateway.kill()  # nobody walks over an earlier state any more, and a pass begins anew
        run.gateway.start()
        until(is_compacted, 5 * PATIENCE_S, "superseded entries are gone")
        assert run.on_spark_now(spark) == digest_of(table)
