"""The lake: a Delta table of entries, written by Spark, committed through `deltalake`.

    lake/_delta_log/…                                     what belongs to the table
    lake/stream=orders/date=2026-01-31/<first id>_….parquet   rows: COLUMNS of lakefile.py
    lake/_checkpoints/…                                   of the queries that write into it

Each commit carries application transactions, which Delta keeps forever and compares on every
commit: the batch of the query that wrote (a batch that comes again changes nothing), and per stream
the range of ids that the lake holds without a hole. `trim` and `verify` rely on that range. An id
is in the lake once: what a second query reads again is left out.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Self
from urllib.parse import unquote

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Transaction
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction, RemoveAction

from headgate.pipeline.lakefile import COLUMNS, LakeFile, rows_of
from headgate.pipeline.location import is_bucket, location_of
from headgate.pipeline.offsets import Id, is_before, parse_id

PARTITIONS = ["stream", "date"]
CHECKPOINTS = "_checkpoints"
RETENTION_H_MIN = 1  # a commit that is being written must not lose its files
_APP = "headgate"
_TRIES = 20
_NUMBERS = 2**64  # of a part of an id; a transaction's version has a sign


class NotALake(ValueError):
    pass


class LakeConflict(RuntimeError):
    """The lake refuses a commit (a hole, or ids of another life); nothing was changed."""


class Held(NamedTuple):
    """The part of a stream that the lake holds without a hole: ids in (after, to] of one life."""

    epoch: str
    after: str
    to: str


class Lake:
    """A lake, read anew at each call; raises NotALake if there is none, see `open_or_create`."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = location_of(path)
        if not _is_table(self.path):
            raise NotALake(f"{self.path} is not a lake: there is no Delta table in it")
        names = [field.name for field in self._table().schema().fields]
        if names != COLUMNS.names:
            raise NotALake(
                f"{self.path} is not a lake of streams: its columns are {', '.join(names)}"
            )

    @classmethod
    def open_or_create(cls, path: str | os.PathLike[str]) -> Self:
        """Return the lake at a path; an empty or missing directory becomes one."""
        plain = location_of(path)
        if not _is_table(plain):
            if not is_bucket(plain) and Path(plain).exists():
                names = sorted(_others(Path(plain)))
                if names:
                    raise NotALake(f"{plain} is not a lake: it holds {names[0]} and no Delta table")
            DeltaTable.create(
                plain, COLUMNS, mode="ignore", partition_by=PARTITIONS, name="headgate lake"
            )
        return cls(plain)

    # What it holds.

    def streams(self) -> list[str]:
        return sorted({file.stream for file in self.files()})

    def held(self, stream: str) -> Held | None:
        """Return the range held without a hole, of the stream's latest life."""
        return _held(self._table(), stream)

    def files(
        self,
        streams: Iterable[str] | None = None,
        *,
        after: str | None = None,
        to: str | None = None,
    ) -> list[LakeFile]:
        """Return the files that may hold entries of the streams in the range of ids."""
        wanted = None if streams is None else set(streams)
        ms_min = 0 if after is None else parse_id(after).ms
        ms_max = _NUMBERS if to is None else parse_id(to).ms
        return [
            file
            for file in _files(self._table())
            if (wanted is None or file.stream in wanted)
            and file.ms_max >= ms_min
            and file.ms_min <= ms_max
        ]

    def count(self, stream: str, *, after: str, to: str) -> int:
        low, high = parse_id(after), parse_id(to)
        count = 0
        for file in self.files([stream], after=after, to=to):
            if low < parse_id(file.first_id) and file.ms_max < high.ms:
                count += file.row_count
                continue
            rows = rows_of(self.path, file.path, after=after, to=to, columns=["id", "ms", "seq"])
            count += sum(map(len, rows))
        return count

    def uri(self, file: LakeFile) -> str:
        return f"{self.path}/{file.path}"

    def arrow(
        self, stream: str, *, after: str | None = None, to: str | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield entries in order, without Spark: all rows of the files that touch (after, to]."""
        for file in self.files_in_order(stream, after=after, to=to):
            yield from rows_of(self.path, file.path, after=after, to=to)

    def files_in_order(
        self, stream: str, *, after: str | None = None, to: str | None = None
    ) -> list[LakeFile]:
        """Return the files of a stream by their first ids; see `files`."""
        files = self.files([stream], after=after, to=to)
        return sorted(files, key=lambda file: parse_id(file.first_id))

    # What changes it.

    def has_batch(self, query: str, batch: int) -> bool:
        last = self._table().transaction_version(query)
        return last is not None and last >= batch

    def next_batch(self, query: str) -> int:
        last = self._table().transaction_version(query)
        return 0 if last is None else last + 1

    def admit(self, ranges: Mapping[str, Held], *, allow_gap: bool = False) -> dict[str, str]:
        """Return per stream the id up to which the lake has the batch already.

        A hole before a range raises LakeConflict; with `allow_gap` the held range starts anew
        behind it.
        """
        table = self._table()
        held_to = {}
        for stream, new in ranges.items():
            old = _held(table, stream)
            if old is None or new.epoch != old.epoch:
                continue
            held_to[stream] = old.to
            if is_before(old.to, new.after) and not allow_gap:
                raise LakeConflict(
                    f"entries of {stream!r} behind {old.to}, up to {new.after}, would be missing"
                    f" in {self.path}; --allow-gap archives what is left"
                )
        return held_to

    def commit(
        self, files: Sequence[LakeFile], *, query: str, batch: int, ranges: Mapping[str, Held]
    ) -> bool:
        """Add files, and note what the lake holds; False if the batch was committed before.

        Batch numbers of a query grow, and ranges must follow what is held. Raises LakeConflict if
        another query wrote into the same streams at this moment, or a new life of a stream has ids
        that the lake holds of an earlier one.
        """
        for _ in range(_TRIES):
            table = self._table()
            last = table.transaction_version(query)
            if last is not None and last >= batch:
                return False
            old = {stream: _held(table, stream) for stream in ranges}
            held = {stream: _followed(stream, old[stream], ranges[stream], files) for stream in old}
            transactions = [Transaction(query, batch, _now_ms())]
            for stream, new in held.items():
                transactions += _transactions(stream, new)
            try:
                self._commit(table, [_added(file) for file in files], transactions, held)
            except LakeConflict:
                now = self._table()
                if any(_end(_held(now, stream)) != _end(old[stream]) for stream in old):
                    raise
                continue  # entries were taken out, which is no obstacle
            return True
        raise LakeConflict(f"others change {self.path} without end: try again")

    def replace(
        self,
        removed: Sequence[LakeFile],
        added: Sequence[LakeFile],
        *,
        without: int = 0,
        retired: Mapping[str, str] | None = None,
    ) -> None:
        """Replace files by others with the same rows but `without` of them; safe with `commit`.

        `retired` is per stream the id up to which nothing is held any more. Raises LakeConflict if
        a file to remove is gone, or another run compacts.
        """
        table = self._table()
        there = {file.path for file in _files(table)}
        gone = [file.path for file in removed if file.path not in there]
        count = sum(file.row_count for file in added) + without
        if gone or sum(file.row_count for file in removed) != count:
            raise LakeConflict(f"{self.path} was compacted by another one meanwhile")
        app = (
            f"{_APP}/compact"  # `deltalake` lets two writers remove one file: this stops the second
        )
        transactions = [Transaction(app, (table.transaction_version(app) or 0) + 1, _now_ms())]
        for stream, to in (retired or {}).items():
            transactions += notes_of(_retired_apps(stream), parse_id(to))
        actions: list[AddAction | RemoveAction] = [
            *(_removed(file, is_change=without > 0) for file in removed),
            *(_added(file, is_change=without > 0) for file in added),
        ]
        self._commit(table, actions, transactions, {})

    def vacuum(self, retention_h: int, *, dry_run: bool = False) -> list[str]:
        """Delete files outside the table after `retention_h` hours, at least RETENTION_H_MIN."""
        paths: list[str] = self._table().vacuum(
            retention_hours=max(retention_h, RETENTION_H_MIN),
            dry_run=dry_run,
            enforce_retention_duration=False,
            full=True,
        )
        return paths

    def checkpoint(self, name: str) -> str:
        """Return the path of a query's checkpoint: beside the lake, or in the user's state folder.

        Spark renames checkpoint files, which a bucket cannot do. Losing a checkpoint costs nothing,
        as the lake notes what it has.
        """
        if not is_bucket(self.path):
            return f"{self.path}/{CHECKPOINTS}/{name}"
        state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
        digest = hashlib.sha256(self.path.encode()).hexdigest()[:16]
        return str(Path(state) / "headgate" / "checkpoints" / digest / name)

    def _table(self) -> DeltaTable:
        return DeltaTable(self.path)

    def _commit(
        self,
        table: DeltaTable,
        actions: list[AddAction | RemoveAction],
        transactions: list[Transaction],
        held: Mapping[str, Held],
    ) -> None:
        metadata = {stream: span._asdict() for stream, span in held.items()}
        try:
            table.create_write_transaction(
                actions,
                "append",
                COLUMNS,
                PARTITIONS,
                commit_properties=CommitProperties(
                    custom_metadata={_APP: metadata},
                    max_commit_retries=_TRIES,
                    app_transactions=transactions,
                ),
                post_commithook_properties=PostCommitHookProperties(create_checkpoint=True),
            )
        except CommitFailedError as error:
            raise LakeConflict(
                f"another one wrote into {self.path} at this moment, of the same kind: {error}"
            ) from error


def is_lake(path: str | os.PathLike[str]) -> bool:
    try:
        Lake(path)
    except NotALake:
        return False
    return True


def _is_table(path: str) -> bool:
    return (is_bucket(path) or Path(path).is_dir()) and DeltaTable.is_deltatable(path)


def _others(path: Path) -> set[str]:
    if not path.is_dir():
        return {"a file"}
    return {child.name for child in path.iterdir()} - {CHECKPOINTS}


def _files(table: DeltaTable) -> list[LakeFile]:
    rows = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    return [
        LakeFile(
            unquote(row["path"]),
            row["partition.stream"],
            row["partition.date"],
            row["num_records"],
            row["size_bytes"],
            row["min.ms"],
            row["max.ms"],
        )
        for row in rows
    ]


def _added(file: LakeFile, *, is_change: bool = True) -> AddAction:
    stats = {
        "numRecords": file.row_count,
        "minValues": {"ms": file.ms_min},
        "maxValues": {"ms": file.ms_max},
        "nullCount": {"ms": 0},
    }
    return AddAction(
        file.path, file.size_bytes, _partition(file), _now_ms(), is_change, json.dumps(stats)
    )


def _removed(file: LakeFile, *, is_change: bool) -> RemoveAction:
    return RemoveAction(file.path, is_change, _now_ms(), file.size_bytes, _partition(file))


def _partition(file: LakeFile) -> dict[str, str | None]:
    return {"stream": file.stream, "date": None if file.date is None else file.date.isoformat()}


def _now_ms() -> int:
    return int(time.time() * 1000)


def _followed(stream: str, old: Held | None, new: Held, files: Sequence[LakeFile]) -> Held:
    """Return the held range with the next one; a new life must not have ids of an earlier one."""
    if old is not None and old.epoch != new.epoch:
        for file in files:
            if file.stream == stream and not is_before(old.to, file.first_id):
                raise LakeConflict(
                    f"{stream!r} was begun anew with ids from {file.first_id} on, and the lake"
                    f" holds an earlier life of it up to {old.to}: archive it into another lake"
                )
    return _joined(old, new)


def _end(held: Held | None) -> tuple[str, str] | None:
    return held and (held.epoch, held.to)


def _joined(old: Held | None, new: Held) -> Held:
    """Return the union of a held range and the next one; the next alone behind a hole."""
    if old is None or new.epoch != old.epoch or is_before(old.to, new.after):
        return new
    return Held(new.epoch, old.after, max(old.to, new.to, key=parse_id))


def _held(table: DeltaTable, stream: str) -> Held | None:
    numbers = noted_numbers(table, _apps(stream))
    if numbers is None:
        return None
    epoch, after_ms, after_seq, to_ms, to_seq = numbers
    after, to = Id(after_ms, after_seq), Id(to_ms, to_seq)
    retired = noted_numbers(table, _retired_apps(stream))
    if retired is not None:
        after = max(after, min(Id(*retired), to))
    return Held(str(epoch), str(after), str(to))


def _transactions(stream: str, held: Held) -> list[Transaction]:
    return notes_of(_apps(stream), [int(held.epoch), *parse_id(held.after), *parse_id(held.to)])


def noted_numbers(table: DeltaTable, apps: Sequence[str]) -> list[int] | None:
    """Return the numbers that transactions note, if all are there."""
    numbers = [table.transaction_version(app) for app in apps]
    return None if None in numbers else [int(number or 0) % _NUMBERS for number in numbers]


def notes_of(apps: Sequence[str], numbers: Sequence[int]) -> list[Transaction]:
    signed = [number - _NUMBERS if number >= _NUMBERS // 2 else number for number in numbers]
    return [Transaction(app, n, _now_ms()) for app, n in zip(apps, signed, strict=True)]


def _apps(stream: str) -> list[str]:
    parts = ("epoch", "after_ms", "after_seq", "to_ms", "to_seq")
    return [f"{_APP}/held/{part}/{stream}" for part in parts]


def _retired_apps(stream: str) -> list[str]:
    """Return separate notes, so that they do not conflict with a concurrent archive."""
    return [f"{_APP}/retired/{part}/{stream}" for part in ("ms", "seq")]
