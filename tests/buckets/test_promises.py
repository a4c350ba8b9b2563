"""Every bucket keeps the promises of the seam: a directory, and stores that two others wrote."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headgate.engine.bucket import objects
from headgate.engine.bucket.bucket import Bucket, BucketError, StoredObject
from headgate.engine.bucket.opening import open_bucket
from tests.buckets.stores import Store

ODD = ["a b", "a+b", "a%20b", "ä", "x?y#z", "c=d&e", "~x", "*[x]", "😀", "..x", "'\"<>"]


CHOSEN = os.environ.get("HEADGATE_TEST_BUCKET")
"""The URL of a bucket of your own, whose variables lead there."""


@pytest.fixture(params=["directory", "moto", "ministack", *(["chosen"] if CHOSEN else [])])
def bucket(
    request: pytest.FixtureRequest,
    bucket_name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Bucket]:
    if request.param == "directory":
        url = (tmp_path / "bucket").as_uri()
    elif request.param == "chosen":
        url = f"{CHOSEN}/{bucket_name}"
    else:
        store: Store = request.getfixturevalue(request.param)
        for name, value in store.variables.items():
            monkeypatch.setenv(name, value)
        url = f"{store.make_bucket(bucket_name)}/of/gateway"
    bucket = open_bucket(url)
    assert bucket.url == url
    yield bucket
    bucket.remove([each.name for each in bucket.objects("")])
    bucket.close()


def test_a_name_is_put_once(bucket: Bucket) -> None:
    assert bucket.put_new("log/1", b"first")
    assert not bucket.put_new("log/1", b"second")
    assert bucket.read("log/1") == b"first"
    assert bucket.put_new("log/2", b"")
    assert bucket.read("log/2") == b""
    assert (bucket.counts.put_count, bucket.counts.get_count) == (3, 2)
    assert (bucket.counts.sent_bytes, bucket.counts.received_bytes) == (11, 5)


@pytest.mark.parametrize(
    ("offset", "size_bytes", "part"),
    [(0, 3, b"012"), (4, 3, b"456"), (8, 5, b"89"), (10, 1, b""), (99, 1, b""), (3, 0, b"")],
)
def test_a_part_ends_with_the_object(
    bucket: Bucket, offset: int, size_bytes: int, part: bytes
) -> None:
    bucket.put_new("digits", b"0123456789")
    assert bucket.read_range("digits", offset, size_bytes) == part


def test_an_object_without_bytes_has_empty_parts(bucket: Bucket) -> None:
    bucket.put_new("empty", b"")
    assert bucket.read_range("empty", 0, 5) == b""


def test_an_object_that_is_not_there_is_not_found(bucket: Bucket) -> None:
    with pytest.raises(FileNotFoundError):
        bucket.read("no/such")
    with pytest.raises(FileNotFoundError):
        bucket.read_range("no/such", 0, 1)
    assert bucket.objects("no/") == []
    bucket.remove(["no/such"])
    bucket.remove([])


def test_objects_are_listed_by_name_behind_a_name(bucket: Bucket) -> None:
    for name in ("log/3", "log/1", "log/2/a", "lo", "logs/1", "log-1"):
        bucket.put_new(name, name.encode())
    every = [StoredObject("log/1", 5), StoredObject("log/2/a", 7), StoredObject("log/3", 5)]
    assert bucket.objects("log/") == every
    assert bucket.objects("log/", "log/1") == every[1:]
    assert bucket.objects("log/", "log/2") == every[1:]
    assert bucket.objects("log/", "log/3") == []


def test_more_objects_than_a_store_lists_at_once_are_listed_and_removed(bucket: Bucket) -> None:
    names = [f"log/{number:06}" for number in range(1_100)]
    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(lambda name: bucket.put_new(name, b"x"), names))
    assert [stored.name for stored in bucket.objects("log/")] == names
    assert [stored.name for stored in bucket.objects("log/", names[1_050])] == names[1_051:]
    bucket.remove(names[:1_080])
    assert [stored.name for stored in bucket.objects("log/")] == names[1_080:]
    assert bucket.counts.removed_count == 1_080


def test_a_name_may_have_any_letters(bucket: Bucket) -> None:
    for name in ODD:
        assert bucket.put_new(f"odd/{name}", name.encode())
    assert [stored.name for stored in bucket.objects("odd/")] == sorted(
        f"odd/{name}" for name in ODD
    )
    for name in ODD:
        assert bucket.read(f"odd/{name}") == name.encode()
    bucket.remove(f"odd/{name}" for name in ODD)
    assert bucket.objects("odd/") == []


def test_a_file_is_put(bucket: Bucket, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(range(256)) * 4_096)
    assert bucket.put_new("file", path)
    assert not bucket.put_new("file", path)
    assert bucket.read("file") == path.read_bytes()


def test_a_large_file_has_parts(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objects, "SINGLE_BYTES_MAX", 2**20)
    path = tmp_path / "file"
    path.write_bytes(bytes(range(256)) * 65_536 + b"the end")
    assert bucket.put_new("file", path)
    assert not bucket.put_new("file", path)
    assert bucket.read_range("file", 2**24 - 1, 100) == b"\xffthe end"
    [stored] = bucket.objects("")
    assert stored == StoredObject("file", 2**24 + 7)


def test_of_two_threads_that_put_a_name_one_wins(bucket: Bucket) -> None:
    with ThreadPoolExecutor(2) as threads:
        for number in range(30):
            name = f"lease/{number}"
            outcomes = list(
                threads.map(lambda who, name=name: bucket.put_new(name, who), [b"a", b"b"])
            )
            assert sorted(outcomes) == [False, True]
            assert bucket.read(name) == (b"a" if outcomes[0] else b"b")


async def test_threads_of_a_bucket_answer_the_loop(bucket: Bucket) -> None:
    assert await bucket.in_thread(lambda: bucket.put_new("a", b"a"))
    assert await bucket.read_in_thread(lambda: bucket.read("a")) == b"a"


@pytest.mark.parametrize("kind", ["moto", "ministack"])
def test_without_its_bucket_no_object_is_missing(
    request: pytest.FixtureRequest, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store: Store = request.getfixturevalue(kind)
    for name, value in store.variables.items():
        monkeypatch.setenv(name, value)
    bucket = open_bucket("s3://never-made/of")
    acts: list[Callable[[], object]] = [
        lambda: bucket.put_new("a", b"a"),
        lambda: bucket.read("a"),
        lambda: bucket.read_range("a", 0, 1),
        lambda: bucket.objects(""),
        lambda: bucket.remove(["a"]),
    ]
    for act in acts:
        with pytest.raises(BucketError, match=r"^404 Not Found \(NoSuchBucket\)$"):
            act()
    assert bucket.counts.error_count == len(acts)
    bucket.close()
