"""The keys file of a data directory, shared through its bucket."""

from pathlib import Path

import pytest

from headgate.app.gateway.shared_keys import SharedKeys
from headgate.engine.bucket.bucket import BucketError
from headgate.engine.bucket.names import KEYS
from tests.buckets.directory import LocalBucket


@pytest.fixture
def bucket(tmp_path: Path) -> LocalBucket:
    return LocalBucket(tmp_path / "bucket")


def keys_of(tmp_path: Path, name: str, bucket: LocalBucket) -> tuple[Path, SharedKeys]:
    path = tmp_path / name / "keys.json"
    path.parent.mkdir(exist_ok=True)
    return path, SharedKeys(bucket, path)


def test_the_next_machine_has_the_keys_and_their_changes(
    tmp_path: Path, bucket: LocalBucket
) -> None:
    path, keys = keys_of(tmp_path, "a", bucket)
    keys.put()  # there is no file yet
    path.write_text("one")
    keys.put()
    there, others = keys_of(tmp_path, "b", bucket)
    others.fetch()
    assert there.read_text() == "one"
    assert there.stat().st_mode & 0o077 == 0
    before = bucket.counts.list_count, bucket.counts.put_count
    keys.put()  # it has not changed, and asks nothing of the store
    assert (bucket.counts.list_count, bucket.counts.put_count) == before
    path.write_text("one and two")  # while no gateway runs
    _, again = keys_of(tmp_path, "a", bucket)
    again.fetch()
    assert path.read_text() == "one and two"
    again.put()
    there, others = keys_of(tmp_path, "c", bucket)
    others.fetch()
    assert there.read_text() == "one and two"


def test_a_standby_does_not_put_back_what_was_revoked(tmp_path: Path, bucket: LocalBucket) -> None:
    path, keys = keys_of(tmp_path, "a", bucket)
    path.write_text("one and two")
    keys.put()
    there, others = keys_of(tmp_path, "b", bucket)
    others.fetch()
    path.write_text("one")
    keys.put()
    _, others = keys_of(tmp_path, "b", bucket)
    others.put()  # it leads, and has not looked since
    assert there.read_text() == "one"
    _, third = keys_of(tmp_path, "c", bucket)
    third.fetch()
    assert (tmp_path / "c" / "keys.json").read_text() == "one"


def test_a_change_whose_answer_got_lost_stays(tmp_path: Path, bucket: LocalBucket) -> None:
    path, keys = keys_of(tmp_path, "a", bucket)
    path.write_text("one")
    put_new = bucket.put_new

    def lose_answer(name: str, content: bytes | Path) -> bool:
        put_new(name, content)
        raise BucketError("no answer")

    bucket.put_new = lose_answer  # type: ignore[method-assign]
    with pytest.raises(BucketError):
        keys.put()
    bucket.put_new = put_new  # type: ignore[method-assign]
    path.write_text("one and two")
    keys.put()
    assert path.read_text() == "one and two"
    assert bucket.read([stored.name for stored in bucket.objects(KEYS)][-1]) == b"one and two"
