"""A gateway by its settings, alone and beside others, and its keys file shared through a bucket."""

import asyncio
from pathlib import Path

import pytest

from headgate.app.backends.embedded import EmbeddedBackend, EmbeddedOptions, open_embedded
from headgate.app.gateway.assembly import assemble, server_settings
from headgate.app.gateway.credentials import SharedKeys, open_credentials
from headgate.app.gateway.gateway import Gateway
from headgate.app.measuring.recorder import HistoryPart, HistoryQuestion
from headgate.app.runtime.telemetry import Metrics
from headgate.app.settings import Settings
from headgate.engine.bucket.bucket import BucketError
from headgate.engine.bucket.manifest import KEYS
from headgate.engine.engine import Engine
from headgate.engine.errors import Unavailable
from headgate.engine.journal.storage import MemoryStorage
from tests.buckets.directory import LocalBucket
from tests.running import running
from tests.siblings import Sibling


def workers(*, has_engine: bool) -> Sibling:
    """Return the second of four processes that serve requests."""
    return Sibling(2, count=4, has_engine=has_engine)


class NoHistory:
    """A history that nobody has."""

    async def read(self, question: HistoryQuestion) -> HistoryPart:
        raise Unavailable("there is no history")


def assembled(
    settings: Settings, siblings: Sibling | None = None
) -> tuple[Gateway, EmbeddedBackend]:
    backend, metrics = EmbeddedBackend(Engine(MemoryStorage())), Metrics()
    credentials = open_credentials(settings)
    return assemble(settings, backend, credentials, metrics, NoHistory(), siblings), backend


def test_bounds_of_bytes_are_shared_by_the_processes() -> None:
    settings = Settings(
        arriving_bytes_max=64 * 2**20, unsent_bytes_max=400 * 2**20, body_bytes_max=2**20
    )
    alone, _ = assembled(settings)
    shared, _ = assembled(settings, workers(has_engine=True))
    assert alone.sockets._unsent_bytes_max == 400 * 2**20
    assert shared.sockets._unsent_bytes_max == 100 * 2**20
    assert alone.sockets._arriving_bytes_max == 64 * 2**20
    assert shared.sockets._arriving_bytes_max == 16 * 2**20


async def test_redis_clients_see_a_directory_only_if_there_is_a_journal(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    _, in_memory = assembled(settings)
    assert server_settings(settings, in_memory).data_dir == ""
    assert not server_settings(settings, in_memory).has_journal
    async with running(
        await asyncio.to_thread(open_embedded, EmbeddedOptions(tmp_path))
    ) as on_disk:
        assert server_settings(settings, on_disk).data_dir == str(tmp_path)
        assert server_settings(settings, on_disk).has_journal


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
