"""Jobs that look at streams, or put entries back."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress

from deploy.local_cluster.waiting import until
from headgate.pipeline.jobs.lag import percentile
from headgate.pipeline.jobs.plot import span_text, width_of, with_pauses
from headgate.pipeline.lake import Lake
from tests.pipeline.command import Command, command
from tests.pipeline.gateway import Gateway

__all__ = ["command"]

PATIENCE_S = 300


@pytest.fixture
def lake(gateway: Gateway, command: Command, name: str, tmp_path: Path) -> str:
    """A lake that holds six entries of the stream."""
    gateway.append(name, [{"n": str(number), "sku": "ab"[number % 2]} for number in range(6)])
    path = str(tmp_path / "lake")
    command.run("archive", "--streams", name, "--lake", path)
    return path


def test_verify_names_the_range_and_the_entry_that_differ(
    gateway: Gateway, command: Command, name: str, lake: str
) -> None:
    [file] = Lake(lake).files()
    rows = pq.read_table(f"{lake}/{file.path}", partitioning=None)
    planted = rows.to_pylist()
    planted[2]["fields"] = [("n", b"7"), ("sku", b"a")]
    pq.write_table(rows.from_pylist(planted, rows.schema), f"{lake}/{file.path}")
    wrong = planted[2]["id"]

    verdicts = set()
    for way in ((), ("--spark",)):
        out, error = command.run("verify", "--streams", name, "--lake", lake, *way, code=1)
        assert "differs from" in out
        assert f"{wrong} has other fields in the lake" in error
        verdicts.add(error.splitlines()[-1])
        [row] = command.rows("trim", "--streams", name, "--lake", lake, *way, code=1)
        assert row["verdict"] == f"kept: the lake lacks {wrong}"
        assert len(gateway.entries(name)) == 6
    assert len(verdicts) == 1


def test_verify_names_an_entry_that_only_one_has(
    gateway: Gateway, command: Command, name: str, lake: str
) -> None:
    gone = gateway.entries(name)[3]["id"]
    assert gateway.http.delete(f"/v1/streams/{name}/entries/{gone}").status_code == 204
    for way in ((), ("--spark",)):
        _, error = command.run("verify", "--streams", name, "--lake", lake, *way, code=1)
        assert f"live 5, lake 6; {gone} is in the lake only" in error


def test_on_spark_what_was_deleted_or_forgotten_is_told_from_loss(
    gateway: Gateway, command: Command, name: str, lake: str
) -> None:
    ids = [entry["id"] for entry in gateway.entries(name)]
    here = ("--streams", name, "--lake", lake)
    assert gateway.http.delete(f"/v1/streams/{name}/entries/{ids[3]}").status_code == 204
    command.run("forget", *here, "--ids", f"{ids[1]},{ids[4]}")
    answers = [command.rows("verify", *here, "--allow-deleted", *way) for way in ((), ("--spark",))]
    [row] = answers[0]
    assert answers[0] == answers[1]
    assert (row["verdict"], row["entries"]) == ("equal", 3)
    assert (row["deleted"], row["forgotten"]) == (1, 2)
    command.run("replay", *here, "--to", f"{name}-again", "--ids", "same")
    assert [entry["id"] for entry in gateway.entries(f"{name}-again")] == [
        *(ids[0], ids[2], ids[3], ids[5])
    ]

    [file] = Lake(lake).files()
    rows = pq.read_table(f"{lake}/{file.path}", partitioning=None)
    planted = rows.to_pylist()
    del planted[-1]  # the last one of the stream
    pq.write_table(rows.from_pylist(planted, rows.schema), f"{lake}/{file.path}")
    for way in ((), ("--spark",)):
        command.run("verify", *here, "--allow-deleted", *way, code=1)
        [row] = command.rows("trim", *here, *way, code=1)
        assert row["verdict"] == f"kept: the lake lacks {ids[5]}"


def test_of_a_table_what_is_archived_may_be_compacted(
    gateway: Gateway, command: Command, name: str, lake: str
) -> None:
    ids = [entry["id"] for entry in gateway.entries(name)]
    latest = {"key_field": "sku", "retain": "latest", "archived_until_ms": 0, "compact_after_ms": 0}
    gateway.http.patch(f"/v1/streams/{name}", json=latest).raise_for_status()
    here = ("--streams", name, "--lake", lake)
    [row] = command.rows("trim", *here, "--superseded")
    assert (row["removed"], row["verdict"]) == (0, "up to what is archived")
    config = gateway.http.get(f"/v1/streams/{name}").json()["config"]
    assert config["archived_until_ms"] == int(ids[-1].partition("-")[0])
    gateway.append_entries(name, [{"fields": {"sku": sku}} for sku in "ab"])
    command.run("archive", *here)
    command.run("trim", *here, "--superseded")
    until(lambda: len(gateway.entries(name)) == 2, PATIENCE_S, "two entries left")
    [row] = command.rows("verify", *here, "--allow-deleted")
    assert (row["verdict"], row["entries"]) == ("equal", 2)


def test_what_may_be_compacted_is_not_verified_again(
    gateway: Gateway, command: Command, name: str, lake: str
) -> None:
    latest = {"key_field": "sku", "retain": "latest", "archived_until_ms": 0}
    gateway.http.patch(f"/v1/streams/{name}", json=latest).raise_for_status()
    here = ("--streams", name, "--lake", lake)
    for _ in range(2):
        last_id = gateway.append(name, [{"sku": "a"}, {"sku": "b"}])[-1]
        command.run("archive", *here)
        [row] = command.rows("trim", *here, "--superseded")
        assert (row["to"], row["verdict"]) == (last_id, "up to what is archived")
        Path(lake, Lake(lake).files_in_order(name)[0].path).unlink(missing_ok=True)


def test_trim_keeps_what_a_group_has_not_settled(
    gateway: Gateway, command: Command, name: str, lake: str
) -> None:
    group = f"/v1/streams/{name}/groups/g"
    gateway.http.put(group, json={"start": "0"}).raise_for_status()
    read = gateway.http.post(f"{group}/read?consumer=c", json={"limit": 3}).json()["entries"]
    ids = [entry["id"] for entry in read]
    gateway.http.post(f"{group}/ack?consumer=c", json={"ids": ids[:2]}).raise_for_status()

    [row] = command.rows("trim", "--streams", name, "--lake", lake, "--dry-run")
    assert row["removed"] == 0
    [row] = command.rows("trim", "--streams", name, "--lake", lake)
    assert (row["removed"], row["verdict"]) == (2, "the group g is not through with the rest")
    [row] = command.rows("trim", "--streams", name, "--lake", lake, "--keep", "1d")
    assert row["removed"] == 0
    [row] = command.rows("trim", "--streams", name, "--lake", lake, "--past-groups")
    assert row["removed"] == 4


def test_replay_brings_back_what_the_lake_holds_with_the_same_ids(
    gateway: Gateway, command: Command, name: str, lake: str
) -> None:
    entries = gateway.entries(name)
    again = f"{name}-again"
    words = ("replay", "--lake", lake, "--streams", name, "--to", again, "--ids", "same")
    command.run(*words)
    assert gateway.entries(again) == entries


def test_replay_of_a_stream_filters_renames_and_is_done_once(
    gateway: Gateway, command: Command, name: str, tmp_path: Path
) -> None:
    ids = gateway.append(name, [{"n": str(n), "sku": "ab"[n % 2]} for n in range(6)])
    words = (
        *("replay", "--streams", name, "--to", "{stream}-again", "--rate", "1000"),
        *("--where", "fields['sku'] = 'b'", "--rename", "sku=article", "--start", ids[2]),
        *("--checkpoint", str(tmp_path / "replay")),
    )
    command.run(*words)
    command.run(*words)
    replayed = [entry["fields"] for entry in gateway.entries(f"{name}-again")]
    assert replayed == [{"n": "3", "article": "b"}, {"n": "5", "article": "b"}]
    other = [*words[:4], f"{name}-other", *words[5:]]
    _, error = command.run(*other, code=1)
    assert "belongs to another query: its to is" in error


def test_stats_say_entries_and_sizes_by_window(
    gateway: Gateway, command: Command, name: str
) -> None:
    gateway.append_entries(
        name, [{"id": f"{1_000 * second}-0", "fields": {"v": "12"}} for second in (1, 2, 11, 60)]
    )
    [first, second, third] = command.rows("stats", "--streams", name, "--window", "10s")
    assert (first["entries"], first["size_bytes"], first["entries_per_s"]) == (2, 6, 0.2)
    assert (second["entries"], third["entries"]) == (1, 1)
    assert first["start"].startswith("1970-01-01T00:00:00")


def test_stats_go_on_and_say_windows_that_are_over(
    gateway: Gateway, command: Command, spark: SparkSession, name: str
) -> None:
    seconds = (1, 2, 11, 60)
    gateway.append_entries(
        name, [{"id": f"{1_000 * second}-0", "fields": {"v": "12"}} for second in seconds]
    )
    words = ("stats", "--streams", name, "--window", "10s", "--trigger", "100ms", "--json")
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(command.run, *words)
        until(lambda: are_closed(spark, windows=2), PATIENCE_S, "two windows are printed")
        for query in spark.streams.active:
            query.stop()
        out, _ = running.result(PATIENCE_S)
    answers = json.loads(out.replace("]\n[", ","))
    assert [(row["start"][:19], row["entries"]) for row in answers] == [
        ("1970-01-01T00:00:00", 2),
        ("1970-01-01T00:00:10", 1),
    ]


def are_closed(spark: SparkSession, *, windows: int) -> bool:
    """Tell whether a query has printed so many windows."""
    return any(
        sum(_printed(progress) for progress in query.recentProgress) >= windows
        for query in spark.streams.active
    )


def _printed(progress: StreamingQueryProgress) -> int:
    return sum(state.numRowsRemoved for state in progress.stateOperators)


def test_changes_leave_out_what_was_deleted(
    gateway: Gateway, command: Command, name: str, tmp_path: Path
) -> None:
    changes = [("1", "put", "a"), ("2", "put", "b"), ("1", "put", "c"), ("2", "delete", "")]
    gateway.append(name, [{"key": k, "op": op, "v": v} for k, op, v in changes])
    words = ("changes", "--streams", name, "--key", "key", "--deleted", "op=delete")
    [row] = command.rows(*words)
    assert (row["key"], row["fields"]["v"]) == ("1", "c")
    [answer] = command.rows(*words, "--out", str(tmp_path / "state.parquet"))
    assert answer["keys"] == 1


def test_changes_of_a_table_are_its_rows_at_an_id_or_what_changed_since(
    gateway: Gateway, command: Command, name: str, tmp_path: Path
) -> None:
    config = {"key_field": "sku", "tombstone_field": "gone"}
    gateway.http.put(f"/v1/streams/{name}", json=config).raise_for_status()
    entries = [
        *({"sku": key, "n": "1"} for key in ("a", "b", "c", "", "k" * 1_025)),
        {"n": "in no row"},
    ]
    first = gateway.append(name, entries)[-1]
    lake = str(tmp_path / "lake")
    command.run("archive", "--streams", name, "--lake", lake)
    gateway.trim(name, max_length=2)
    second = gateway.append(name, [{"sku": "b", "gone": ""}, {"sku": "a", "n": "2"}])[-1]
    gateway.append(name, [{"sku": "a", "n": "3"}])

    def changes(*words: str) -> dict[str, str | None]:
        way = ("changes", "--streams", name, "--lake", lake, *words)
        in_memory, on_spark = command.rows(*way), command.rows(*way, "--spark")
        assert in_memory == on_spark
        return {row["key"]: row["fields"] and row["fields"]["n"] for row in in_memory}

    assert changes("--as-of", first) == {"a": "1", "b": "1", "c": "1", "base64:": "1"}
    assert changes() == {"a": "3", "c": "1", "base64:": "1"}
    assert changes("--after", first, "--as-of", second) == {"a": "2", "b": None}
    _, error = command.run("changes", "--streams", name, "--as-of", "9999999999999-0", code=1)
    assert "is behind the last id" in error
    _, error = command.run("changes", "--streams", name, "--as-of", first, code=1)
    assert "--lake reads what the stream has no longer" in error


def test_dead_letters_are_a_table_and_go_back(
    gateway: Gateway, command: Command, name: str
) -> None:
    [first, _] = gateway.append(name, [{"n": "1"}, {"n": "2"}])
    group = f"/v1/streams/{name}/groups/g"
    policy = {"max_deliveries": 1, "dead_letter_stream": f"{name}-dead"}
    gateway.http.put(group, json={"start": "0", "policy": policy}).raise_for_status()
    gateway.http.post(f"{group}/read?consumer=c", json={"limit": 1}).raise_for_status()
    failed = {"ids": [first], "mode": "fatal", "error": "KeyError: 'n'"}
    gateway.http.post(f"{group}/nack?consumer=c", json=failed).raise_for_status()
    gateway.http.post(f"{group}/read?consumer=c", json={"limit": 1}).raise_for_status()

    [row] = command.rows("deadletters", "--streams", f"{name}-dead")
    assert (row["origin"], row["origin_id"], row["group"]) == (name, first, "g")
    assert (row["fields"], row["error"]) == ({"n": "1"}, "KeyError: 'n'")
    [done] = command.rows("deadletters", "--streams", f"{name}-dead", "--redrive")
    assert done == {"origin": name, "group": "g", "redriven": 1}
    assert gateway.entries(f"{name}-dead") == []
    back = gateway.http.post(f"{group}/read?consumer=d", json={"limit": 9}).json()["entries"]
    assert first in [entry["id"] for entry in back]


def test_lag_of_groups(gateway: Gateway, command: Command, name: str) -> None:
    gateway.append(name, [{"n": "1"}] * 5)
    group = f"/v1/streams/{name}/groups/g"
    gateway.http.put(group, json={"start": "0"}).raise_for_status()
    gateway.http.post(f"{group}/read?consumer=c", json={"limit": 2}).raise_for_status()
    [row] = command.rows("lag", "--streams", name)
    assert (row["lag"], row["pending"], row["deliveries_max"]) == (3, 2, 1)
    assert row["oldest_s"] >= row["append_to_now_p50_s"] >= 0
    _, error = command.run("lag", "--streams", name, "--lag-max", "2", code=1)
    assert f"Error: g of {name} is 3 entries behind" in error


def test_percentiles() -> None:
    assert percentile([], 50) is None
    assert percentile([1.0], 99) == 1.0
    assert [percentile(list(range(1, 101)), percent) for percent in (1, 50, 99)] == [1, 50, 99]


def test_a_plot_is_one_file_that_needs_nothing_else(
    gateway: Gateway, command: Command, name: str, tmp_path: Path
) -> None:
    gateway.append_entries(
        name, [{"id": f"{1000 * n}-0", "fields": {"v": "<b>"}} for n in range(1, 50)]
    )
    out = tmp_path / "plot.html"
    command.run("plot", "--streams", name, "--out", str(out))
    page = out.read_text()
    assert "<script src=" not in page
    assert "entries per second" in page
    assert "bytes per second" in page
    assert "prefers-color-scheme: dark" in page
    assert page.count('class="plotly-graph-div"') == 5


def test_plots_of_a_folder_can_share_their_script(
    gateway: Gateway, command: Command, name: str, tmp_path: Path
) -> None:
    gateway.append_entries(
        name, [{"id": f"{1000 * n}-0", "fields": {"v": "1"}} for n in range(1, 50)]
    )
    for number in (1, 2):
        out = str(tmp_path / f"{number}.html")
        command.run("plot", "--streams", name, "--script", "shared", "--out", out)
    [script] = tmp_path.glob("*.js")
    assert script.stat().st_size > 1_000_000
    for number in (1, 2):
        page = (tmp_path / f"{number}.html").read_text()
        assert f'<script src="{script.name}"></script>' in page
        assert len(page) < 100_000


@pytest.mark.parametrize(
    ("length_ms", "width_ms", "text"),
    [(0, 1, "1 ms"), (399_000, 1000, "1 s"), (86_400_000, 300_000, "5 min")],
)
def test_points_of_a_plot_are_of_a_round_length(length_ms: int, width_ms: int, text: str) -> None:
    assert width_of(length_ms) == width_ms
    assert span_text(width_ms) == text


def test_a_line_is_zero_where_there_are_no_entries() -> None:
    assert with_pauses([], 10) == []
    assert with_pauses([(0, 1.0), (10, 2.0)], 10) == [(0, 1.0), (10, 2.0)]
    assert with_pauses([(0, 1.0), (20, 2.0)], 10) == [(0, 1.0), (10, 0.0), (20, 2.0)]
    line = with_pauses([(0, 1.0), (90, 2.0)], 10)
    assert line == [(0, 1.0), (10, 0.0), (80, 0.0), (90, 2.0)]
