"""A bucket is found by its URL, and nothing else than one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from headgate.engine.bucket.bucket import BucketError, RequestLimits
from headgate.engine.bucket.directory import DirectoryBucket
from headgate.engine.bucket.objects import ObjectBucket
from headgate.engine.bucket.opening import open_bucket


@pytest.fixture(autouse=True)
def variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials for stores that are never asked."""
    for name, value in {
        "AWS_ACCESS_KEY_ID": "key-of-ana",
        "AWS_SECRET_ACCESS_KEY": "secret-of-ana",
        "AZURE_STORAGE_ACCOUNT_NAME": "ana",
        "AZURE_STORAGE_ACCOUNT_KEY": "c2VjcmV0",
        "GOOGLE_SKIP_SIGNATURE": "true",
    }.items():
        monkeypatch.setenv(name, value)


def test_a_directory_is_a_bucket(tmp_path: Path) -> None:
    bucket = open_bucket((tmp_path / "a b").as_uri())
    assert isinstance(bucket, DirectoryBucket)
    bucket.put_new("x", b"x")
    assert (tmp_path / "a b" / "x").read_bytes() == b"x"


@pytest.mark.parametrize("url", ["s3://name/a/b", "gs://name", "az://name/a", "s3://name/a/"])
def test_a_store_is_a_bucket(url: str) -> None:
    bucket = open_bucket(url)
    assert isinstance(bucket, ObjectBucket)
    assert bucket.url == url.rstrip("/")


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("ftp://name/a", "should begin with s3://, gs://, az:// or file:///"),
        ("data", "should begin with s3://"),
        ("", "should begin with s3://"),
        ("s3:///a", "should be s3://NAME/PREFIX"),
        ("file://host/a", "should be file:///DIRECTORY"),
        ("file:a", "should be file:///DIRECTORY"),
        ("s3://ana:secret@name/a", "should have no credentials"),
        ("s3://name/a?X-Amz-Signature=secret", "should have no credentials"),
    ],
)
def test_what_is_no_bucket_is_refused(url: str, text: str) -> None:
    with pytest.raises(ValueError, match=text) as raised:
        open_bucket(url)
    assert "secret" not in str(raised.value)


def test_what_a_store_lacks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME")
    with pytest.raises(ValueError, match="Account must be specified"):
        open_bucket("az://name/a")


@pytest.mark.parametrize("endpoint", ["localhost:9000", ""])
def test_an_endpoint_must_be_a_url(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    with pytest.raises(ValueError, match="AWS_ENDPOINT_URL should begin with https://"):
        open_bucket("s3://name/a")


def test_the_package_for_stores_is_named_if_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "headgate.engine.bucket.objects")
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(ValueError, match=r"obstore is missing; headgate\[bucket\] brings it"):
        open_bucket("s3://name/a")


@pytest.mark.parametrize(
    "endpoint",
    [
        "http://ana:secret-word@127.0.0.1:1",
        "http://127.0.0.1:1/x?sig=secret-word",
        "https://127.0.0.1:1/secret-word",
        "http://secret-word.invalid",
    ],
)
def test_an_error_has_no_address_or_credential(
    endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    bucket = open_bucket("s3://name/a", RequestLimits(retries_max=0))
    with pytest.raises(BucketError) as raised:
        bucket.put_new("x", b"x")
    text = str(raised.value)
    assert text
    assert len(text) < 250
    for secret in ("secret", "key-of-ana", "Authorization"):
        assert secret not in text
    bucket.close()


def test_a_name_that_no_store_takes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = open_bucket("s3://name/a")
    for name in ("a//b", "../b", "a/./b", "a/\x01"):
        with pytest.raises(BucketError):
            bucket.put_new(name, b"x")
    bucket.close()
