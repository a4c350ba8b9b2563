"""An operator learns what a bucket lacks, before a gateway relies on it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from headgate.app.cli import main
from headgate.engine.bucket.opening import open_bucket
from tests.buckets.faulty_way import FaultyWay
from tests.buckets.stores import Store, variables_of


def doctor(url: str, *words: str, **variables: str) -> Result:
    return CliRunner().invoke(main, ["doctor", "--bucket", url, *words], env=variables)


def findings(ended: Result) -> dict[str, dict[str, str]]:
    return {finding["about"]: finding for finding in map(json.loads, ended.stdout.splitlines())}


def test_a_directory_will_do(tmp_path: Path) -> None:
    ended = doctor(tmp_path.as_uri())
    assert ended.exit_code == 0, ended.output
    assert "create-only put\tok\tthere" in ended.stdout
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("kind", ["moto", "ministack"])
def test_a_store_will_do(request: pytest.FixtureRequest, kind: str, bucket_name: str) -> None:
    store: Store = request.getfixturevalue(kind)
    ended = doctor(f"{store.make_bucket(bucket_name)}/a", "--json", **store.variables)
    assert ended.exit_code == 0, ended.output
    about = findings(ended)
    assert {finding["severity"] for finding in about.values()} == {"ok"}
    assert about["bucket"]["text"] == f"s3://{bucket_name}/a"
    assert about["time of a put"]["text"].endswith(" ms")


def test_a_store_that_ignores_the_condition_of_a_put_is_a_fault(
    way: FaultyWay, moto: Store, bucket_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    way.keeps_conditions = False
    url = moto.make_bucket(bucket_name)
    ended = doctor(url, **variables_of(way.endpoint))
    assert ended.exit_code == 1
    assert (
        "create-only put\tfault\tmissing\t"
        "two gateways could write at the same time: do not use this store" in ended.stdout
    )
    for name, value in moto.variables.items():
        monkeypatch.setenv(name, value)
    bucket = open_bucket(url)
    assert bucket.objects("") == []
    bucket.close()


def test_a_bucket_that_is_not_there_is_a_fault(moto: Store) -> None:
    ended = doctor("s3://never-made", "--json", **moto.variables)
    assert ended.exit_code == 1
    write = findings(ended)["write"]
    assert write["text"] == "404 Not Found (NoSuchBucket)"
    assert write["follows"] == "the bucket cannot store anything"


def test_a_store_that_is_away_is_a_fault(way: FaultyWay) -> None:
    way.leave()
    ended = doctor("s3://name", "--json", **variables_of(way.endpoint))
    assert ended.exit_code == 1
    assert findings(ended)["write"]["text"] == "no connection"
    assert "test-secret" not in ended.output


def test_what_is_no_bucket_is_said_in_one_line(tmp_path: Path) -> None:
    ended = doctor("ftp://ana:secret@here/a")
    assert ended.exit_code == 1
    assert ended.stderr.startswith("Error: --bucket should ")
    assert "secret" not in ended.output


def test_the_bucket_may_be_a_variable_but_not_beside_servers(tmp_path: Path) -> None:
    url = tmp_path.as_uri()
    by_variable = CliRunner().invoke(main, ["doctor"], env={"HEADGATE_BUCKET": url})
    assert by_variable.stdout.startswith(f"bucket\tok\t{url}")
    words = ["doctor", "--backend", "redis://127.0.0.1:1"]
    of_servers = CliRunner().invoke(main, words, env={"HEADGATE_BUCKET": url})
    assert "backend is set: a bucket needs a data directory" in of_servers.stderr
