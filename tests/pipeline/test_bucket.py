"""Buckets: each job works with a lake in a bucket, or says in one line why it does not."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from headgate.pipeline.cli import main
from tests.buckets.stores import Store
from tests.pipeline.gateway import Gateway


@pytest.fixture
def bucket(moto: Store, name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """The name of a bucket, which the libraries are told the way to by the environment."""
    for variable, value in {
        **moto.variables,
        "AWS_ALLOW_HTTP": "true",
        "XDG_STATE_HOME": str(tmp_path),
    }.items():
        monkeypatch.setenv(variable, value)
    moto.make_bucket(name)
    return name


def run(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(main, words)
    assert result.exit_code == code, (result.output, result.stderr)
    return result.stdout if code == 0 else result.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("scheme", "way"),
    [
        pytest.param("s3", [], id="in memory"),
        pytest.param("s3a", ["--spark"], id="on Spark", marks=pytest.mark.long),
    ],
)
def test_the_chain_of_jobs_works_in_a_bucket(
    gateway: Gateway, bucket: str, name: str, scheme: str, way: list[str]
) -> None:
    lake = ("--lake", f"{scheme}://{bucket}/lake")
    which = ("--url", gateway.url, "--streams", name)
    for day in range(3):
        gateway.append(name, [{"sku": f"a{n}", "price": f"{day}.5"} for n in range(5)])
        run("archive", *which, *lake, *way)

    assert json.loads(run("compact", *lake, "--json"))[0]["files_after"] == 1
    verified = json.loads(run("verify", *which, *lake, *way, "--json"))
    assert [row["verdict"] for row in verified] == ["equal"]
    latest = json.loads(run("changes", *which, *lake, "--key", "sku", "--json"))
    assert {row["fields"]["price"] for row in latest} == {"2.5"}
    [view] = json.loads(run("view", *lake, "--json"))
    assert view["added"] == 15
    forget = ("forget", "--url", gateway.url, *lake, "--where", "sku=a1", "--json")
    [taken] = json.loads(run(*forget))
    assert (taken["forgotten"], taken["of_view"], taken["files_deleted"]) == (3, 3, 5)
    verified = json.loads(run("verify", *which, *lake, *way, "--json"))
    assert [(row["verdict"], row["forgotten"]) for row in verified] == [("equal", 3)]
    run("trim", *which, *lake, *way)
    assert gateway.count(name) == 0
    [old] = json.loads(run("retention", *lake, "--older-than", "1ms", "--json"))
    assert (old["removed"], old["of_view"]) == (12, 12)
    assert "ok     lake" in run("doctor", "--url", gateway.url, "--lake", lake[1])


def test_a_bucket_that_is_not_there_is_said_in_one_line(
    gateway: Gateway, bucket: str, name: str
) -> None:
    gateway.append(name, [{"sku": "a"}])

    line = run(
        *("archive", "--url", gateway.url, "--streams", name),
        *("--lake", f"s3://{bucket}-not/lake"),
        code=1,
    )

    assert line.endswith("NoSuchBucket: The specified bucket does not exist")


def test_a_checkpoint_in_a_bucket_is_refused(gateway: Gateway, bucket: str, name: str) -> None:
    gateway.append(name, [{"sku": "a"}])

    line = run(
        *("archive", "--url", gateway.url, "--streams", name, "--lake", f"s3://{bucket}/lake"),
        *("--spark", "--checkpoint", f"s3://{bucket}/checkpoint"),
        code=1,
    )

    assert line.startswith("Error: a checkpoint cannot be in a bucket")


def test_what_is_no_bucket_is_refused(gateway: Gateway, name: str) -> None:
    gateway.append(name, [{"sku": "a"}])

    line = run(
        *("archive", "--url", gateway.url, "--streams", name, "--lake", "ftp://there/lake"), code=1
    )

    assert line.startswith("Error: ftp://there/lake is no place for a lake")
