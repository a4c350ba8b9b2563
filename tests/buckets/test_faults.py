"""The promises of a bucket hold over a way that fails."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest

from headgate.engine.bucket import objects
from headgate.engine.bucket.bucket import Bucket, BucketError, RequestLimits
from headgate.engine.bucket.opening import open_bucket
from tests.buckets.faulty_way import Fault, FaultyWay
from tests.buckets.stores import Store, variables_of

LIMITS = RequestLimits(connect_s=2, request_s=5, retries_max=2, backoff_s=0.005)
IMPATIENT = LIMITS._replace(request_s=0.3)

T = TypeVar("T")

Opening = Callable[..., Bucket]


@pytest.fixture
def over(moto: Store, bucket_name: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Opening]:
    """Opens a new bucket of `moto`, or the same again, over a way."""
    url = f"{moto.make_bucket(bucket_name)}/over"
    opened = []

    def opening(way: FaultyWay | Store, limits: RequestLimits = LIMITS) -> Bucket:
        for name, value in variables_of(way.endpoint).items():
            monkeypatch.setenv(name, value)
        opened.append(open_bucket(url, limits))
        return opened[-1]

    yield opening
    for bucket in opened:
        bucket.close()


def put(bucket: Bucket, name: str, content: bytes) -> bool | None:
    """Put an object, and settle an answer that the name is taken; None: nobody knows."""
    try:
        return bucket.put_new(name, content) or bucket.read(name) == content
    except BucketError:
        return None


def until_done(act: Callable[[], T]) -> T:
    """Do something until it works."""
    while True:
        try:
            return act()
        except BucketError:
            continue


@pytest.mark.parametrize("seed", range(4))
def test_a_number_has_one_writer(way: FaultyWay, moto: Store, over: Opening, seed: int) -> None:
    there = over(moto)
    writers = [over(way) for _ in range(3)]
    way.seed(seed, share=0.5)
    winners: dict[str, set[bytes]] = {}

    def write(who: int) -> None:
        for number in range(10):
            content = f"{who} {number}".encode()
            if put(writers[who], f"log/{number}", content):
                winners.setdefault(f"log/{number}", set()).add(content)

    with ThreadPoolExecutor(3) as threads:
        list(threads.map(write, range(3)))
    way.mend()
    for name, contents in winners.items():
        assert contents == {there.read(name)}, name


@pytest.mark.parametrize("seed", range(4))
def test_a_writer_alone_finds_what_it_put_whatever_fails(
    way: FaultyWay, moto: Store, over: Opening, seed: int
) -> None:
    bucket, there = over(way), over(moto)
    chance = random.Random(seed)
    way.seed(seed, share=0.5)
    wanted = {f"log/{number:03}": chance.randbytes(200) for number in range(20)}
    for name, content in wanted.items():
        while (outcome := put(bucket, name, content)) is None:
            pass
        assert outcome
        assert there.read(name) == content
    listed = until_done(lambda: bucket.objects("log/"))
    assert {name: until_done(partial(bucket.read, name)) for name, _ in listed} == wanted
    until_done(lambda: bucket.remove(list(wanted)[:10]))
    assert [each.name for each in there.objects("log/")] == list(wanted)[10:]


@pytest.mark.parametrize(
    ("fault", "is_new"),
    [
        (Fault.DELAY, True),
        (Fault.DROPPED_BEFORE, True),
        (Fault.DROPPED_AFTER, False),  # its own object, met again
        (Fault.TWICE, True),
        (Fault.SECOND_ANSWER, False),
        (Fault.ERROR, True),
        (Fault.ERROR_AFTER, False),
        (Fault.SLOW_DOWN, True),
    ],
)
def test_a_put_is_there_after_one_fault(
    way: FaultyWay, moto: Store, over: Opening, fault: Fault, is_new: bool
) -> None:
    bucket = over(way)
    way.fail_next(fault)
    assert bucket.put_new("a", b"mine") is is_new
    assert over(moto).read("a") == b"mine"


def test_a_request_that_comes_later_is_met_again(
    way: FaultyWay, moto: Store, over: Opening
) -> None:
    bucket = over(way, LIMITS._replace(retries_max=0))
    way.fail_next(Fault.LATER)
    with pytest.raises(BucketError, match="the connection broke off"):
        bucket.put_new("a", b"mine")
    while not bucket.objects(""):
        pass
    assert not bucket.put_new("a", b"mine")


def test_a_conflict_is_no_answer_that_the_object_is_there(way: FaultyWay, over: Opening) -> None:
    bucket = over(way)
    way.fail_next(Fault.CONFLICT)
    with pytest.raises(BucketError, match="409 Conflict"):
        bucket.put_new("a", b"mine")
    assert bucket.put_new("a", b"mine")
    way.fail_next(Fault.CONFLICT)
    assert not bucket.put_new("a", b"another")


def test_what_is_no_store_does_not_know_what_is_missing(way: FaultyWay, over: Opening) -> None:
    bucket = over(way)
    way.fail_next(Fault.STRANGER, Fault.STRANGER)
    with pytest.raises(BucketError, match=r"^404 Not Found$"):
        bucket.read("a")
    with pytest.raises(BucketError, match=r"^404 Not Found$"):
        bucket.put_new("a", b"a")


@pytest.mark.parametrize("seed", range(2))
def test_a_large_file_is_whole_or_not_there(
    way: FaultyWay,
    moto: Store,
    over: Opening,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
) -> None:
    monkeypatch.setattr(objects, "SINGLE_BYTES_MAX", 2**20)
    bucket, there = over(way), over(moto)
    path = tmp_path / "file"
    path.write_bytes(random.Random(seed).randbytes(20 * 2**20))
    way.seed(seed, share=0.4)
    until_done(lambda: bucket.put_new("file", path))
    assert there.read("file") == path.read_bytes()


def test_a_store_that_is_away_is_an_error_until_it_is_back(way: FaultyWay, over: Opening) -> None:
    bucket = over(way)
    assert bucket.put_new("a", b"a")
    way.leave()
    for act in (
        lambda: bucket.put_new("b", b"b"),
        lambda: bucket.read("a"),
        lambda: bucket.objects(""),
        lambda: bucket.remove(["a"]),
    ):
        with pytest.raises(BucketError, match=r"^no connection$"):
            act()
    assert bucket.counts.error_count == 4
    way.come_back()
    assert bucket.put_new("b", b"b")
    assert bucket.read("a") == b"a"


def test_silence_ends_with_the_time_of_a_request(way: FaultyWay, over: Opening) -> None:
    bucket = over(way, IMPATIENT)
    way.fail_next(Fault.SILENCE)
    with pytest.raises(BucketError, match=r"^no answer in time$"):
        bucket.put_new("a", b"a")
    way.fail_next(Fault.SILENCE)
    with pytest.raises(BucketError, match=r"^no answer in time$"):
        bucket.read("a")


def test_requests_are_counted_as_the_store_sees_them(way: FaultyWay, over: Opening) -> None:
    bucket = over(way)
    way.fail_next(Fault.ERROR_AFTER, None, Fault.DROPPED_BEFORE)
    bucket.put_new("log/a", b"a")
    bucket.put_new("log/b", b"b")
    bucket.read("log/b")
    bucket.objects("log/")
    bucket.remove(["log/a", "log/b"])
    assert way.counts == {"put": 3, "get": 1, "list": 1, "remove": 1}


def test_a_store_that_forgets_the_condition_is_seen(way: FaultyWay, over: Opening) -> None:
    bucket = over(way)
    way.keeps_conditions = False
    assert bucket.put_new("a", b"first")
    assert bucket.put_new("a", b"second")
