"""Location: places are spelled in one way, and an error of a bucket has its cause in one line."""

from pathlib import Path

import pytest

from headgate.pipeline.location import LocationError, cause_of, is_bucket, location_of

REFUSED = (
    "Generic S3 error\n          \x1b[31m\u21b3\x1b[0m Error performing list request\n           "
    "\x1b[31m\u21b3\x1b[0m Error performing GET http://127.0.0.1:1/lake?list-type=2 in 1s, after "
    "10 retries, max_retries\n            \x1b[31m\u21b3\x1b[0m tcp connect error\n    "
    "\x1b[31m\u21b3\x1b[0m Connection refused (os error 111)\n"
)
MISSING = (
    "Generic S3 error\n \x1b[31m\u21b3\x1b[0m Error performing GET http://s3/nobucket?a=b in 4ms\n "
    "\x1b[31m\u21b3\x1b[0m 404 Not Found\n \x1b[31m\u21b3\x1b[0m <?xml version='1.0'?>\n<Error>"
    "<Code>NoSuchBucket</Code><Message>The specified bucket does not exist</Message></Error>\n"
)


@pytest.mark.parametrize(
    ("path", "location"),
    [
        ("s3://lake/a/", "s3://lake/a"),
        ("s3a://lake/a", "s3://lake/a"),
        ("S3A://lake/a", "s3://lake/a"),
        ("gs://lake", "gs://lake"),
        ("az://lake/a b", "az://lake/a b"),
        (
            "abfss://lake@account.dfs.core.windows.net/a",
            "abfss://lake@account.dfs.core.windows.net/a",
        ),
    ],
)
def test_a_bucket_is_spelled_in_one_way(path: str, location: str) -> None:
    assert location_of(path) == location
    assert is_bucket(location)


def test_a_directory_is_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    there = tmp_path / "lake"
    for path in ("lake", Path("lake"), f"file://{there}", str(tmp_path / "x" / ".." / "lake")):
        assert location_of(path) == str(there)
    assert not is_bucket(location_of("lake"))


@pytest.mark.parametrize(
    "path", ["hdfs://h/x", "http://h/x", "s3://", "s3:///", "s3:/lake", "s3a:lake"]
)
def test_what_is_no_place_for_a_lake_is_refused(path: str) -> None:
    with pytest.raises(LocationError):
        location_of(path)


def test_the_cause_of_an_error_is_its_last_one() -> None:
    assert cause_of(REFUSED) == "S3 at http://127.0.0.1:1/lake: Connection refused (os error 111)"
    assert cause_of(MISSING) == (
        "S3 at http://s3/nobucket: NoSuchBucket: The specified bucket does not exist"
    )
    assert cause_of("another error") is None
