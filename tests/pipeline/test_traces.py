"""A token leaves no trace in anything that Spark writes; and a key that may only read is enough."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.pipeline.lake import Lake
from tests.pipeline.gateway import ROOT
from tests.pipeline.guarded import ENTRIES, Guarded, check_no_trace
from tests.pipeline.java import SHORT_LIVED
from tests.pipeline.jobs import PATIENCE_S
from tests.pipeline.traces import conf_of


@pytest.fixture
def guarded(tmp_path: Path, name: str) -> Iterator[Guarded]:
    started = Guarded(tmp_path / "data", name)
    yield started
    started.gateway.stop()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of Spark's output."""
    folder = tmp_path / "written"
    folder.mkdir()
    return folder


def run(*words: str, **variables: str) -> tuple[int, str]:
    """Run a module of Python in a process of its own; returns what it said."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith("HEADGATE_")}
    done = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=ROOT,
        env={**kept, "JAVA_TOOL_OPTIONS": SHORT_LIVED, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    return done.returncode, done.stdout


def test_a_token_leaves_no_trace(guarded: Guarded, folder: Path) -> None:
    words = ("local[2]", guarded.gateway.url, guarded.stream, str(folder))
    code, text = run("tests.pipeline.traces", *words, TOKEN_AS_OPTION=guarded.key)

    assert code == 0, text
    (folder / "end").write_text(text)
    check_no_trace(folder, guarded.key, files_min=10)
    entries = guarded.gateway.entries(guarded.stream)
    assert guarded.gateway.count(f"{guarded.stream}-copy") == len(entries)
    assert guarded.gateway.count(f"{guarded.stream}-again") == len(entries)


def test_the_archive_job_runs_with_a_key_that_may_only_read(guarded: Guarded, folder: Path) -> None:
    conf = " ".join(f"--conf '{name}={value}'" for name, value in conf_of(folder).items())
    words = ("archive", "--url", guarded.gateway.url, "--streams", guarded.stream)
    lake = str(folder / "lake")
    code, text = run(
        *("headgate.pipeline.cli", *words, "--lake", lake, "--spark"),
        HEADGATE_TOKEN=guarded.reading_key,
        PYSPARK_SUBMIT_ARGS=f"{conf} pyspark-shell",
    )

    assert code == 0, text
    (folder / "end").write_text(text)
    check_no_trace(folder, guarded.reading_key, files_min=10)
    assert sum(file.row_count for file in Lake(lake).files()) == ENTRIES
