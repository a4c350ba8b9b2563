import datetime as dt
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from headgate.pipeline.jobs.compact import bins_by_date
from headgate.pipeline.lake import Held, Lake, LakeConflict, NotALake, is_lake
from headgate.pipeline.lakefile import LakeFile, directory_name, files_of, merge_files, write_rows
from headgate.pipeline.offsets import parse_id

DAY_MS = 86_400_000
Pairs = Sequence[tuple[str, bytes]]


def rows(stream: str, ids: Sequence[str], fields: Pairs = (("v", b"1"),)) -> pa.RecordBatch:
    """Entries of a stream, all with the same fields, as the data source gives them."""
    pairs = [{"name": name, "value": value} for name, value in fields]
    moments = [parse_id(entry_id).ms * 1000 for entry_id in ids]
    return pa.RecordBatch.from_pydict(
        {
            "stream": pa.array([stream] * len(ids)),
            "id": pa.array(ids),
            "ms": pa.array([parse_id(entry_id).ms for entry_id in ids], pa.int64()),
            "seq": pa.array(
                [seq if (seq := parse_id(entry_id).seq) < 2**63 else None for entry_id in ids],
                pa.int64(),
            ),
            "timestamp": pa.array(moments, pa.timestamp("us", tz="UTC")),
            "fields": pa.array(
                [pairs] * len(ids),
                pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())])),
            ),
        }
    )


def write(
    lake: Lake, *batches: pa.RecordBatch, held_to: Mapping[str, str] | None = None
) -> list[LakeFile]:
    return files_of(write_rows(batches, lake.path, held_to or {}))


def archive(lake: Lake, batch: int, stream: str, ids: Sequence[str], *, after: str) -> bool:
    files = write(lake, rows(stream, ids))
    ranges = {stream: Held("7", after, ids[-1])}
    return lake.commit(files, query="q", batch=batch, ranges=ranges)


def ids_of(lake: Lake) -> list[str]:
    """Return the ids that any reader of Delta tables finds."""
    table = DeltaTable(lake.path).to_pyarrow_table()
    return sorted(table["id"].to_pylist(), key=parse_id)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.open_or_create(tmp_path / "lake")


def test_any_delta_reader_finds_what_was_committed(lake: Lake) -> None:
    fields = (("b", b"\xff\x00"), ("a", b"1"), ("a", b"2"))
    files = write(lake, rows("orders", ["1000-0", "1000-1"], fields))
    lake.commit(files, query="q", batch=0, ranges={"orders": Held("7", "0-0", "1000-1")})

    committed = DeltaTable(lake.path).to_pyarrow_table().to_pylist()

    assert [row["id"] for row in committed] == ["1000-0", "1000-1"]
    assert committed[0]["fields"] == list(fields)  # order, repeats and bytes that are no text
    assert committed[0]["date"] == dt.date(1970, 1, 1)
    assert committed[0]["timestamp"] == dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC)


def test_a_batch_that_comes_again_changes_nothing(lake: Lake) -> None:
    assert archive(lake, 0, "orders", ["1-0", "2-0"], after="0-0")
    assert not archive(lake, 0, "orders", ["1-0", "2-0"], after="0-0")
    assert ids_of(lake) == ["1-0", "2-0"]
    assert lake.has_batch("q", 0)
    assert not lake.has_batch("q", 1)
    assert not lake.has_batch("another", 0)


def test_what_is_held_grows_with_each_batch_and_outlives_a_checkpoint_of_the_log(
    lake: Lake,
) -> None:
    archive(lake, 0, "orders", ["5-0"], after="3-0")
    archive(lake, 1, "orders", ["6-0"], after="5-0")
    DeltaTable(lake.path).create_checkpoint()
    assert lake.held("orders") == Held("7", "3-0", "6-0")
    assert lake.held("others") is None


def test_ids_of_64_bits_are_held_as_they_are(lake: Lake) -> None:
    last = f"5-{2**64 - 1}"
    archive(lake, 0, "orders", ["5-1", last], after="0-0")
    assert lake.held("orders") == Held("7", "0-0", last)
    again = write(lake, rows("orders", ["5-1", last, "6-0"]), held_to={"orders": last})
    assert [(file.first_id, file.row_count) for file in again] == [("6-0", 1)]


def test_a_hole_is_refused_unless_it_is_allowed(lake: Lake) -> None:
    archive(lake, 0, "orders", ["1-0"], after="0-0")
    beyond = {"orders": Held("7", "4-0", "5-0")}
    with pytest.raises(LakeConflict, match=r"'orders' behind 1-0, up to 4-0"):
        lake.admit(beyond)
    assert lake.admit(beyond, allow_gap=True) == {"orders": "1-0"}


def test_a_second_query_writes_only_what_is_not_there(lake: Lake) -> None:
    archive(lake, 0, "orders", ["1-0", "2-0"], after="0-0")
    ranges = {"orders": Held("7", "0-0", "3-0")}
    files = write(lake, rows("orders", ["1-0", "2-0", "3-0"]), held_to=lake.admit(ranges))
    lake.commit(files, query="another", batch=0, ranges=ranges)
    assert ids_of(lake) == ["1-0", "2-0", "3-0"]
    assert lake.held("orders") == Held("7", "0-0", "3-0")


def test_a_new_life_with_old_ids_is_refused_and_with_later_ones_taken(lake: Lake) -> None:
    archive(lake, 0, "orders", ["1-0", "5-0"], after="0-0")
    old = write(lake, rows("orders", ["2-0"]))
    with pytest.raises(LakeConflict, match="begun anew with ids from 2-0"):
        lake.commit(old, query="q", batch=1, ranges={"orders": Held("8", "0-0", "2-0")})
    new = write(lake, rows("orders", ["6-0"]))
    lake.commit(new, query="q", batch=1, ranges={"orders": Held("8", "0-0", "6-0")})
    assert ids_of(lake) == ["1-0", "5-0", "6-0"]
    assert lake.held("orders") == Held("8", "0-0", "6-0")


@pytest.mark.parametrize("name", ["a b", "über:%20", "x=1,y", "..", "ß" * 120])
def test_streams_of_any_name_have_a_directory_and_keep_their_name(lake: Lake, name: str) -> None:
    archive(lake, 0, name, ["1-0"], after="0-0")
    assert lake.streams() == [name]
    assert ids_of(lake) == ["1-0"]
    assert len(directory_name(name)) < 200
    assert lake.held(name) is not None


def test_each_stream_and_date_has_files_of_its_own(lake: Lake) -> None:
    mixed = pa.Table.from_batches(
        [rows("a", ["1-0", f"{DAY_MS}-0"]), rows("b", [f"{DAY_MS}-0", f"{DAY_MS}-1"])]
    )
    files = write(lake, *mixed.combine_chunks().to_batches())
    assert [(file.stream, str(file.date), file.row_count) for file in files] == [
        ("a", "1970-01-01", 1),
        ("a", "1970-01-02", 1),
        ("b", "1970-01-02", 2),
    ]


def test_compaction_keeps_the_rows_in_order_and_appends_may_come_meanwhile(lake: Lake) -> None:
    for batch in range(5):
        archive(lake, batch, "orders", [f"{batch + 1}-0"], after=f"{batch}-0")
    small = lake.files()
    [files] = bins_by_date(small, 1_000_000)
    paths = pa.RecordBatch.from_pydict({"paths": [[file.path for file in files]]})
    merged = files_of(merge_files([paths], lake.path, 1_000_000))
    archive(lake, 5, "orders", ["6-0"], after="5-0")

    lake.replace(files, merged)

    assert len(lake.files()) == 2
    read = [entry_id for batch in lake.arrow("orders") for entry_id in batch["id"].to_pylist()]
    assert read == [f"{number}-0" for number in range(1, 7)]
    assert lake.held("orders") == Held("7", "0-0", "6-0")
    assert DeltaTable(lake.path).to_pyarrow_table().num_rows == 6


class SeenBefore(Lake):
    """A lake whose next change is based on an older state of the table."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._seen = [super()._table()]

    def _table(self) -> DeltaTable:
        return self._seen.pop() if getattr(self, "_seen", None) else super()._table()


def merged(lake: Lake, files: Sequence[LakeFile]) -> list[LakeFile]:
    paths = pa.RecordBatch.from_pydict({"paths": [[file.path for file in files]]})
    return files_of(merge_files([paths], lake.path, 1_000_000))


def test_compaction_and_archive_at_the_same_moment_both_succeed(lake: Lake) -> None:
    archive(lake, 0, "orders", ["1-0"], after="0-0")
    archive(lake, 1, "orders", ["2-0"], after="1-0")
    small = lake.files()
    compaction = SeenBefore(lake.path)
    archive(lake, 2, "orders", ["3-0"], after="2-0")
    compaction.replace(small, merged(lake, small))

    archiving = SeenBefore(lake.path)
    small = lake.files()
    lake.replace(small, merged(lake, small))
    archive(archiving, 3, "orders", ["4-0"], after="3-0")

    assert ids_of(lake) == ["1-0", "2-0", "3-0", "4-0"]
    assert lake.held("orders") == Held("7", "0-0", "4-0")


def test_of_two_compactions_or_archives_at_the_same_moment_one_is_refused(lake: Lake) -> None:
    archive(lake, 0, "orders", ["1-0"], after="0-0")
    archive(lake, 1, "orders", ["2-0"], after="1-0")
    small = lake.files()
    late = SeenBefore(lake.path)
    lake.replace(small, merged(lake, small))
    with pytest.raises(LakeConflict, match="at this moment"):
        late.replace(small, merged(lake, small))

    late = SeenBefore(lake.path)
    archive(lake, 2, "orders", ["3-0"], after="2-0")
    files = write(lake, rows("orders", ["3-0"]))
    with pytest.raises(LakeConflict, match="at this moment"):
        late.commit(files, query="other", batch=0, ranges={"orders": Held("7", "2-0", "3-0")})
    assert ids_of(lake) == ["1-0", "2-0", "3-0"]


def test_files_nobody_committed_are_vacuumed_and_checkpoints_stay(
    lake: Lake, age: Callable[[Path], None]
) -> None:
    archive(lake, 0, "orders", ["1-0"], after="0-0")
    [orphan] = write(lake, rows("orders", ["2-0"]))
    kept = Path(lake.checkpoint("archive"), "offsets")
    kept.parent.mkdir(parents=True)
    kept.write_text("v1")
    for path in (Path(lake.path, orphan.path), kept):
        age(path)
    assert lake.vacuum(1, dry_run=True) == [orphan.path]
    assert lake.vacuum(1) == [orphan.path]
    assert not Path(lake.path, orphan.path).exists()
    assert kept.exists()
    assert ids_of(lake) == ["1-0"]


def test_a_path_that_is_no_lake_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotALake, match=re.escape(f"{tmp_path} is not a lake")):
        Lake(tmp_path)
    (tmp_path / "letters.txt").write_text("dear")
    with pytest.raises(NotALake, match=r"holds letters\.txt"):
        Lake.open_or_create(tmp_path)
    assert not is_lake(tmp_path)
    with pytest.raises(NotALake, match="holds a file"):
        Lake.open_or_create(tmp_path / "letters.txt")


def test_a_delta_table_of_something_else_is_refused(tmp_path: Path) -> None:
    DeltaTable.create(str(tmp_path / "table"), pa.schema([("a", pa.int64())]))
    with pytest.raises(NotALake, match=r"its columns are a$"):
        Lake(tmp_path / "table")


def test_ranges_leave_out_files_that_hold_nothing_of_them(lake: Lake) -> None:
    archive(lake, 0, "orders", ["1-0", "2-0"], after="0-0")
    archive(lake, 1, "orders", ["5-0"], after="2-0")
    assert [file.first_id for file in lake.files(["orders"], after="3-0")] == ["5-0"]
    assert [file.first_id for file in lake.files(["orders"], to="4-0")] == ["1-0"]
    assert lake.files(["others"]) == []


@pytest.fixture
def age() -> Callable[[Path], None]:
    """Makes a file look a week old."""

    def make_old(path: Path) -> None:
        week_ago = path.stat().st_mtime - 7 * 86_400
        os.utime(path, (week_ago, week_ago))

    return make_old
