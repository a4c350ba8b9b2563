"""Entries that leave the lake and its views for good, and what other jobs make of it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable, write_deltalake
from vega_datasets import local_data

from headgate.pipeline.cli import main
from headgate.pipeline.erasure import FORGOTTEN, Selection, forget, forgotten, retire
from headgate.pipeline.lake import Held, Lake, LakeConflict
from headgate.pipeline.views.view import View
from tests.pipeline.command import Command
from tests.pipeline.gateway import Gateway
from tests.pipeline.test_lake import SeenBefore, ids_of, merged
from tests.pipeline.test_lake import archive as archive_ids
from tests.pipeline.test_read_lake import Pairs, archive

DAY_MS = 86_400_000
NOBODY = ("--url", "http://127.0.0.1:1")
VISITS: list[tuple[str, Pairs]] = [
    ("1000-0", [("user", b"ann"), ("page", b"a")]),
    ("1000-1", [("user", b"bob"), ("page", b"b")]),
    (f"{2 * DAY_MS}-0", [("user", b"ann"), ("page", b"c")]),
    (f"{2 * DAY_MS}-1", [("user", b"cid"), ("user", b"ann")]),
]


@pytest.fixture(autouse=True)
def short_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headgate.pipeline.terminal.flags._RETRY_S", 0.0)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A lake of two streams with views, one of them in two files."""
    lake = Lake.open_or_create(tmp_path / "lake")
    archive(lake, "visits", VISITS, 0)
    archive(lake, "others", VISITS, 0)
    for stream in lake.streams():
        View(lake, stream, f"{lake.path}-views").update()
    return lake


def rows(lake: Lake, job: str, *words: str) -> list[dict[str, Any]]:
    done = CliRunner().invoke(main, [job, *NOBODY, "--lake", lake.path, "--json", *words])
    assert done.exit_code == 0, done.output
    parsed: list[dict[str, Any]] = json.loads(done.stdout)
    return parsed


def ids_in(folder: str, column: str) -> set[str]:
    """Return the ids in all files of a folder, whether they belong to a table or not."""
    files = [path for path in Path(folder).rglob("*.parquet") if "/_" not in str(path)]
    tables = [pq.read_table(path, columns=[column], partitioning=None) for path in files]
    return {entry_id for table in tables for entry_id in table[column].to_pylist()}


def lake_ids(lake: Lake, stream: str) -> list[str]:
    return [id_ for batch in lake.arrow(stream) for id_ in batch["id"].to_pylist()]


def view_ids(lake: Lake, stream: str) -> set[str]:
    return set(DeltaTable(f"{lake.path}-views/{stream}").to_pyarrow_table()["_id"].to_pylist())


def test_a_customer_is_in_no_file_any_more(lake: Lake) -> None:
    held, version = lake.held("visits"), DeltaTable(lake.path).version()
    words = ("--streams", "visits", "--where", "user=ann")
    [row] = rows(lake, "forget", *words, "--dry-run")
    assert (row["forgotten"], row["of_view"]) == (3, 3)
    assert DeltaTable(lake.path).version() == version
    [row] = rows(lake, "forget", *words)
    assert (row["forgotten"], row["of_view"], row["files_deleted"]) == (3, 3, 3)
    assert "no gateway" in row["remains"]
    assert lake_ids(lake, "visits") == ["1000-1"]
    assert DeltaTable(lake.path).version() == version + 1
    assert lake.held("visits") == held
    assert view_ids(lake, "visits") == {"1000-1"}
    assert ids_in(f"{lake.path}/stream=visits", "id") == {"1000-1"}
    assert ids_in(f"{lake.path}-views/visits", "_id") == {"1000-1"}
    assert len(lake_ids(lake, "others")) == len(view_ids(lake, "others")) == 4
    log = "".join(path.read_text() for path in Path(f"{lake.path}-views").rglob("*.json"))
    assert "ann" not in log  # statistics of a table have the least and the greatest values
    [row] = rows(lake, "forget", *words)
    assert (row["forgotten"], row["of_view"], row["files_deleted"]) == (0, 0, 0)
    assert DeltaTable(lake.path).version() == version + 1


def test_ids_are_forgotten_in_all_streams_or_in_those_that_are_named(lake: Lake) -> None:
    taken = rows(lake, "forget", "--ids", "1000-1,7-7")
    assert [(row["stream"], row["forgotten"]) for row in taken] == [("others", 1), ("visits", 1)]
    assert forgotten(lake, "visits").to_pylist() == ["1000-1"]
    [row] = rows(lake, "forget", "--ids", "1000-0", "--streams", "others")
    assert row["forgotten"] == 1
    assert len(lake_ids(lake, "visits")) == 3
    [row] = rows(lake, "forget", "--where", "user=ann", "--where", "page=c", "--streams", "visits")
    assert row["forgotten"] == 1


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ([], "Give either --ids or --where"),
        (["--ids", "1-0", "--where", "a=b"], "Give either --ids or --where"),
        (["--ids", "soon"], "'soon' is no entry id"),
        (["--where", "user"], "'user' is not FIELD=VALUE"),
    ],
)
def test_what_is_to_be_forgotten_has_to_be_said(
    lake: Lake, words: Sequence[str], problem: str
) -> None:
    done = CliRunner().invoke(main, ["forget", "--lake", lake.path, *words])
    assert (done.exit_code, problem in done.stderr) == (2, True)


def test_old_files_can_be_kept_for_those_who_read_them(lake: Lake) -> None:
    words = ("--streams", "visits", "--where", "user=ann", "--retention", "2h")
    [row] = rows(lake, "forget", *words)
    assert (row["forgotten"], row["files_deleted"]) == (3, 0)
    assert row["remains"].startswith("old files until 2")
    assert len(ids_in(f"{lake.path}/stream=visits", "id")) == 4
    [row] = rows(lake, "forget", *words[:-2])  # now at once
    assert (row["forgotten"], row["files_deleted"]) == (0, 3)
    assert ids_in(f"{lake.path}/stream=visits", "id") == {"1000-1"}


def test_a_run_that_was_killed_is_repeated(lake: Lake) -> None:
    noted = pa.table({"stream": ["others"], "id": ["1000-0"]})
    write_deltalake(f"{lake.path}/{FORGOTTEN}", noted)  # and then it was killed
    forget(lake, "visits", Selection(values={"user": b"ann"}))  # or here
    rows(lake, "forget", "--where", "user=ann")
    for stream in ("visits", "others"):
        assert lake_ids(lake, stream) == ["1000-1"]
        assert view_ids(lake, stream) == {"1000-1"}
        assert ids_in(f"{lake.path}/stream={stream}", "id") == {"1000-1"}
        assert ids_in(f"{lake.path}-views/{stream}", "_id") == {"1000-1"}
        assert len(forgotten(lake, stream)) == 3


def test_a_view_that_was_written_meanwhile_forgets_as_well(lake: Lake) -> None:
    archive(lake, "visits", [(f"{3 * DAY_MS}-0", [("user", b"ann")])], 1)

    def forget_ann(_count: int) -> None:
        forget(lake, "visits", Selection(values={"user": b"ann"}))

    View(lake, "visits", f"{lake.path}-views").update(on_progress=forget_ann)
    assert view_ids(lake, "visits") == {"1000-1"}


def test_an_archive_or_a_compaction_of_the_same_moment_is_no_obstacle(tmp_path: Path) -> None:
    lake = Lake.open_or_create(tmp_path / "lake")
    for batch in range(2):
        archive_ids(lake, batch, "orders", [f"{batch + 1}-0"], after=f"{batch}-0")
    late = SeenBefore(lake.path)
    archive_ids(lake, 2, "orders", ["3-0"], after="2-0")
    assert forget(late, "orders", Selection(frozenset(["1-0"]))) == ["1-0"]
    assert ids_of(lake) == ["2-0", "3-0"]

    archiving = SeenBefore(lake.path)
    assert retire(lake, "orders", 3) == (1, 1)
    archive_ids(archiving, 3, "orders", ["4-0"], after="3-0")
    assert ids_of(lake) == ["3-0", "4-0"]
    assert lake.held("orders") == Held("7", f"2-{2**64 - 1}", "4-0")

    late = SeenBefore(lake.path)
    small = lake.files()
    lake.replace(small, merged(lake, small))
    assert forget(late, "orders", Selection(frozenset(["3-0"]))) == ["3-0"]
    assert ids_of(lake) == ["4-0"]
    with pytest.raises(LakeConflict, match="compacted by another one"):
        lake.replace(small, [])


def test_old_entries_leave_lake_and_view_and_what_is_held_begins_later(lake: Lake) -> None:
    now_ms = int(time.time() * 1000)
    young = f"{now_ms}-0"
    archive(lake, "visits", [(f"{now_ms - 2 * DAY_MS}-0", [("user", b"eve")]), (young, [])], 1)
    View(lake, "visits", f"{lake.path}-views").update()
    words = ("--streams", "visits", "--older-than", "1d")
    [row] = rows(lake, "retention", *words, "--dry-run")
    assert (row["removed"], row["of_view"], row["held_after"]) == (5, 5, "0-0")
    [row] = rows(lake, "retention", *words)
    assert (row["removed"], row["of_view"]) == (5, 5)
    assert row["remains"].startswith("old files until 2")
    assert (lake_ids(lake, "visits"), view_ids(lake, "visits")) == ([young], {young})
    held = lake.held("visits")
    assert held is not None
    assert (row["held_after"], held.to) == (held.after, young)
    assert held.after.startswith(str(now_ms - DAY_MS)[:6])
    version = DeltaTable(lake.path).version()
    [row] = rows(lake, "retention", *words)
    assert (row["removed"], row["of_view"], row["remains"]) == (0, 0, None)
    assert DeltaTable(lake.path).version() == version
    [row] = rows(lake, "retention", "--streams", "others", "--older-than", "1d")
    assert (row["removed"], row["held_after"]) == (4, f"{2 * DAY_MS}-1")
    assert (lake.streams(), view_ids(lake, "others")) == (["visits"], set())
    archive(lake, "others", [(young, [("user", b"dan")])], 1)
    assert View(lake, "others", f"{lake.path}-views").update().added == 1


# With a gateway, and without Spark.


@pytest.fixture
def command(gateway: Gateway) -> Command:
    return Command(gateway.url)


@pytest.fixture
def cars(gateway: Gateway, command: Command, name: str, tmp_path: Path) -> tuple[str, ...]:
    """A stream of real records, which is archived; the flags of it."""
    records = local_data.cars().to_dict("records")
    fields = [{str(k): str(v) for k, v in row.items()} for row in records]
    entries = [{"id": f"{number}-5", "fields": row} for number, row in enumerate(fields, 1000)]
    gateway.append_entries(name, entries)
    here = ("--streams", name, "--lake", str(tmp_path / "lake"))
    command.run("archive", *here)
    return here


def test_what_was_deleted_on_purpose_is_accepted_if_that_is_asked_for(
    gateway: Gateway, command: Command, name: str, cars: tuple[str, ...]
) -> None:
    ids = [entry["id"] for entry in gateway.entries(name)]
    gateway.trim(name, max_length=len(ids) - 10)
    delete(gateway, name, [ids[20], ids[30]])
    command.run("verify", *cars, code=1)
    [row] = command.rows("verify", *cars, "--allow-deleted")
    assert (row["verdict"], row["deleted"], row["entries"]) == ("equal", 2, len(ids) - 12)


def test_what_cannot_have_been_deleted_is_loss(
    gateway: Gateway, command: Command, name: str, cars: tuple[str, ...]
) -> None:
    lake = Lake(cars[-1])
    ids = [entry["id"] for entry in gateway.entries(name)]
    delete(gateway, name, [ids[20]])
    plant(lake, name, ids[10], f"{ids[10].split('-')[0]}-4")
    _, error = command.run("verify", *cars, "--allow-deleted", code=1)
    assert "2 entries are in the lake only, and 1 were deleted at most" in error
    plant(lake, name, ids[-2], f"{ids[-2].split('-')[0]}-6")
    _, error = command.run("verify", *cars, "--allow-deleted", code=1)
    assert "is in the lake only, and nothing behind" in error


def test_what_the_lake_lacks_is_loss_whatever_was_deleted(
    gateway: Gateway, command: Command, name: str, cars: tuple[str, ...]
) -> None:
    lake = Lake(cars[-1])
    ids = [entry["id"] for entry in gateway.entries(name)]
    rewrite(lake, name, lambda rows: rows.filter(pa.compute.not_equal(rows["id"], ids[5])))
    _, error = command.run("verify", *cars, "--allow-deleted", code=1)
    assert f"{ids[5]} is not in the lake" in error


def test_what_was_forgotten_is_no_loss_and_does_not_come_back(
    gateway: Gateway, command: Command, name: str, cars: tuple[str, ...]
) -> None:
    command.run("view", "--lake", cars[-1])
    count = len(local_data.cars())
    japanese = sum(local_data.cars()["Origin"] == "Japan")
    [row] = command.rows("forget", *cars, "--where", "Origin=Japan")
    assert (row["forgotten"], row["of_view"]) == (japanese, japanese)
    assert row["remains"] == f"{japanese} in the stream: delete them there"
    [row] = command.rows("verify", *cars)
    assert (row["verdict"], row["forgotten"]) == ("equal", japanese)
    assert row["entries"] == count - japanese
    gateway.append(name, [{"Origin": "Europe"}])
    command.run("archive", *cars)
    command.run("view", "--lake", cars[-1], "--anew")
    lake = Lake(cars[-1])
    assert len(lake_ids(lake, name)) == len(view_ids(lake, name)) == count - japanese + 1
    [row] = command.rows("trim", *cars)
    assert (row["removed"], row["verdict"]) == (count + 1, "up to what is archived")
    [row] = command.rows("forget", *cars, "--where", "Origin=Japan")
    assert row["remains"] is None


def test_verify_archive_and_trim_go_on_behind_what_retention_took(
    gateway: Gateway, command: Command, name: str, tmp_path: Path
) -> None:
    now_ms = int(time.time() * 1000)
    times = [now_ms - days * DAY_MS for days in (100, 95, 10, 1)]
    entries = [{"id": f"{ms}-1", "fields": {"n": "1"}} for ms in times]
    gateway.append_entries(name, entries)
    here = ("--streams", name, "--lake", str(tmp_path / "lake"))
    command.run("archive", *here)
    [row] = command.rows("retention", *here, "--older-than", "90d")
    assert row["removed"] == 2
    [row] = command.rows("verify", *here)
    assert (row["verdict"], row["entries"]) == ("equal", 2)
    gateway.append(name, [{"n": "2"}])
    command.run("archive", *here)
    [row] = command.rows("verify", *here)
    assert (row["verdict"], row["entries"]) == ("equal", 3)
    [row] = command.rows("trim", *here)
    assert row["removed"] == 0
    assert row["verdict"].endswith("see --past-retention")
    [row] = command.rows("trim", *here, "--past-retention")
    assert row["removed"] == 5
    [row] = command.rows("retention", *here, "--older-than", "1ms")
    assert row["removed"] == 3
    gateway.append(name, [{"n": "3"}])
    command.run("archive", *here)
    [row] = command.rows("verify", *here)
    assert (row["verdict"], row["entries"]) == ("equal", 1)


def delete(gateway: Gateway, stream: str, ids: Sequence[str]) -> None:
    for entry_id in ids:
        answer = gateway.http.delete(f"/v1/streams/{stream}/entries/{entry_id}")
        assert answer.status_code == 204


def rewrite(lake: Lake, stream: str, change: Callable[[pa.Table], pa.Table]) -> None:
    """Change the one file of a stream, as nothing should."""
    [file] = lake.files([stream])
    path = f"{lake.path}/{file.path}"
    pq.write_table(change(pq.read_table(path, partitioning=None)), path)


def plant(lake: Lake, stream: str, beside: str, entry_id: str) -> None:
    """Put an entry into the lake that no stream had."""

    def planted(rows: pa.Table) -> pa.Table:
        copies = rows.to_pylist()
        at = next(index for index, row in enumerate(copies) if row["id"] == beside)
        ms, seq = (int(part) for part in entry_id.split("-"))
        is_later = (ms, seq) > (copies[at]["ms"], copies[at]["seq"])
        copies.insert(at + is_later, copies[at] | {"id": entry_id, "ms": ms, "seq": seq})
        return pa.Table.from_pylist(copies, rows.schema)

    rewrite(lake, stream, planted)
