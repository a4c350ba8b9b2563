"""`head`, `sample` and `schema`: streams, the lake and views are looked at alike; no Spark."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

from headgate.client.blocking import Client
from headgate.pipeline.cli import main
from headgate.pipeline.computing import extract
from headgate.pipeline.terminal.flags import Flags
from tests.pipeline.gateway import Gateway
from tests.pipeline.test_cli import run

COUNT = 2500


def rows(*words: str) -> list[dict[str, Any]]:
    done = CliRunner().invoke(main, [*words, "--json"])
    assert done.exit_code == 0, done.output
    parsed: list[dict[str, Any]] = json.loads(done.stdout)
    return parsed


def refusal(*words: str) -> str:
    done = CliRunner().invoke(main, list(words))
    assert done.exit_code == 1, done.output
    return done.stderr.splitlines()[-1]


@pytest.fixture
def places(gateway: Gateway, name: str, tmp_path: Path) -> dict[str, Sequence[str]]:
    """The same entries in a stream, in the lake in several files, and in a view; words for each."""
    lake, views = str(tmp_path / "lake"), str(tmp_path / "lake-views")
    where = ("--url", gateway.url, "--streams", name)
    for begin in range(0, COUNT, 1000):
        end = min(begin + 1000, COUNT)
        gateway.append_entries(
            name,
            [
                {
                    "id": f"{1 + n // 3}-{n}",
                    "fields": {"n": str(n), **({"odd one": "x"} if n % 2 else {})},
                }
                for n in range(begin, end)
            ],
        )
        rows("archive", *where, "--lake", lake)
    rows("view", "--lake", lake)
    return {
        "stream": where,
        "lake": ("--lake", lake, "--streams", name),
        "view": ("--view", views, "--streams", name),
    }


@pytest.mark.parametrize("place", ["stream", "lake", "view"])
def test_the_first_and_the_last_entries(
    places: dict[str, Sequence[str]], name: str, place: str
) -> None:
    shown = rows("head", *places[place], "--entries", "2")
    assert [(row["_stream"], row["_id"], row["n"], row["odd one"]) for row in shown] == [
        (name, "1-0", 0, None),
        (name, "1-1", 1, "x"),
    ]
    assert shown[0]["_time"].startswith("1970-01-01T00:00:00.001")
    shown = rows("head", *places[place], "--last", "-n", "1200")
    assert [row["n"] for row in shown] == list(range(COUNT - 1200, COUNT))


@pytest.mark.parametrize("place", ["stream", "lake", "view"])
def test_a_sample_is_random_and_in_order(places: dict[str, Sequence[str]], place: str) -> None:
    ask = ("sample", *places[place], "-n", "40", "--seed", "7")
    shown = [row["n"] for row in rows(*ask)]
    assert shown == sorted(set(shown))
    assert shown == [row["n"] for row in rows(*ask)]
    if place != "view":  # whose rows are in no order
        assert shown == sorted(random.Random(7).sample(range(COUNT), 40))
    everything = rows("sample", *places[place], "-n", "10000")
    assert [row["n"] for row in everything] == list(range(COUNT))


@pytest.mark.parametrize("place", ["stream", "lake", "view"])
@pytest.mark.parametrize("entries", [100, 10_000])
def test_a_schema_has_types_nulls_and_examples(
    places: dict[str, Sequence[str]], name: str, place: str, entries: int
) -> None:
    fields = {row["field"]: row for row in rows("schema", *places[place], "-n", str(entries))}
    of_views = ["_rescued"] if place == "view" else []
    assert list(fields) == ["_id", "_time", *of_views, "n", "odd one"]
    of_n = fields["n"]
    assert (of_n["stream"], of_n["type"], of_n["nulls"]) == (name, "int64", 0.0)
    examples = [int(example) for example in of_n["examples"].split(", ")]
    if place != "view":  # whose rows are in no order
        assert examples == [0, 1, 2]
    assert len(set(examples)) == 3
    assert set(examples) <= set(range(COUNT))
    assert (fields["odd one"]["type"], fields["odd one"]["examples"]) == ("string", "x")
    assert 0.4 < fields["odd one"]["nulls"] < 0.6


def test_pieces_are_spread_over_all_entries(gateway: Gateway, name: str) -> None:
    gateway.append(name, [{"n": str(n)} for n in range(3000)])
    with Client(gateway.url) as client:
        [source] = extract.sources(Flags(url=gateway.url, streams=name), client)
        positions = extract.spread(source, 100, 20)
        assert (len(positions), positions[:5], positions[-1]) == (100, [0, 1, 2, 3, 4], 2999)
        assert source.rows(positions)["n"].to_pylist() == positions
        assert extract.spread(source, 5000, 20) == list(range(3000))


def test_streams_of_other_fields_are_one_table(gateway: Gateway, name: str) -> None:
    gateway.append_pairs(f"{name}-a", [("k", "1"), ("k", "2"), ("blob", b"\xff\xfe")])
    gateway.append_pairs(f"{name}-b", [(b"\xfe", "é")])
    late = f"{2**63 - 1}-{2**64 - 1}"
    gateway.append_entries(f"{name}-b", [{"id": late, "fields": {"k": "last"}}])
    words = ("--url", gateway.url, "--pattern", f"{name}-.*")
    shown = rows("head", *words)
    assert [row["_stream"] for row in shown] == [f"{name}-a", f"{name}-b", f"{name}-b"]
    assert [row["k"] for row in shown] == [2, None, "last"]
    assert [row["�"] for row in shown] == [None, "é", None]
    assert (shown[2]["_id"], shown[2]["_time"]) == (late, None)  # no calendar has this day
    assert "��" in CliRunner().invoke(main, ["head", *words]).stdout


def test_a_view_is_named_by_itself_or_by_its_folder(places: dict[str, Sequence[str]]) -> None:
    _, folder, _, name = places["view"]
    assert rows("head", "--view", f"{folder}/{name}") == rows("head", "--view", folder)


def test_a_folder_of_any_name_and_of_grown_columns(gateway: Gateway, tmp_path: Path) -> None:
    name, lake = f"a b={tmp_path.name}", str(tmp_path / "lake")
    words = ("--url", gateway.url, "--streams", name, "--lake", lake)
    for fields in ({"n": "1"}, {"n": "2", "new": "x"}):
        with Client(gateway.url) as client:
            client.stream(name).append(fields)
        rows("archive", *words)
        rows("view", "--lake", lake)
    shown = rows("head", "--view", f"{lake}-views")
    assert [(row["_stream"], row["n"], row["new"]) for row in shown] == [
        (name, 1, None),
        (name, 2, "x"),
    ]


def test_numbers_of_people_are_shown_as_they_are(gateway: Gateway, name: str) -> None:
    fields = {"year": "2013", "latitude": "40.639751", "delay": "2.0"}
    gateway.append_entries(name, [{"id": "1-0", "fields": fields}])
    for job in ("head", "sample"):
        done = CliRunner().invoke(main, [job, "--url", gateway.url, "--streams", name])
        assert done.stdout.split()[-3:] == ["2013", "40.639751", "2.0"]


def test_what_is_not_there_is_said_in_one_line(
    gateway: Gateway, name: str, places: dict[str, Sequence[str]], tmp_path: Path
) -> None:
    _, lake, *_ = places["lake"]
    line = refusal("head", "--lake", lake, "--streams", "nobody")
    assert line == f"Error: {lake} holds nothing of the stream 'nobody'"
    line = refusal("sample", "--view", str(tmp_path / "nowhere"))
    assert line.endswith("nowhere is no view: there is no Delta table in it")
    gateway.http.put(f"/v1/streams/{name}-empty", json={}).raise_for_status()
    words = ("--url", gateway.url, "--streams", f"{name}-empty")
    for job in ("head", "sample", "schema"):
        assert rows(job, *words) == []
        assert CliRunner().invoke(main, [job, *words]).stdout == "no entries\n"


def test_nothing_of_spark_is_imported(places: dict[str, Sequence[str]]) -> None:
    for job in ("head", "sample", "schema"):
        code, _, err = run(job, *places["stream"], env={"PYTHONPROFILEIMPORTTIME": "1"})
        assert code == 0
        assert "pyspark" not in err


def test_files_of_another_table_have_its_columns(tmp_path: Path) -> None:
    from deltalake import write_deltalake  # noqa: PLC0415

    for numbers in ([3, 4], [5]):
        write_deltalake(tmp_path / "table", pa.table({"n": numbers}), mode="append")
    assert {row["n"] for row in rows("head", "--view", str(tmp_path / "table"))} == {3, 4, 5}
