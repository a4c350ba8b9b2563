"""The examination of a bucket names each promise that its store breaks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from headgate.app.diagnosis.bucket import examine_bucket
from headgate.app.diagnosis.findings import Severity
from headgate.engine.bucket.bucket import BucketError, StoredObject
from headgate.engine.bucket.stores.directory import DirectoryBucket


class Overwriting(DirectoryBucket):
    """It puts whether a name is taken or not."""

    def put_new(self, name: str, content: bytes | Path) -> bool:
        self.remove([name])
        return super().put_new(name, content)


class Racing(DirectoryBucket):
    """It looks whether a name is taken, and then puts: all of a race win."""

    def put_new(self, name: str, content: bytes | Path) -> bool:
        return super().put_new(name, content) or "race" in name


class Deaf(DirectoryBucket):
    """It gives the whole in place of a part."""

    def read_range(self, name: str, offset: int, size_bytes: int) -> bytes:
        return self.read(name)


class Late(DirectoryBucket):
    """It lists an object when it has listed another time."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._before: list[StoredObject] = []

    def objects(self, prefix: str, after: str = "") -> list[StoredObject]:
        before, self._before = self._before, super().objects(prefix)
        return [each for each in before if each.name > after]


class Forgetful(DirectoryBucket):
    """It lists everything, whatever name it is to begin behind."""

    def objects(self, prefix: str, after: str = "") -> list[StoredObject]:
        return super().objects(prefix)


class Keeping(DirectoryBucket):
    """It removes nothing."""

    def remove(self, names: Iterable[str]) -> None:
        raise BucketError("403 Forbidden (AccessDenied)")


class Unreadable(DirectoryBucket):
    """It may be written only."""

    def read(self, name: str) -> bytes:
        raise BucketError("403 Forbidden (AccessDenied)")


class ReadOnly(DirectoryBucket):
    """It may be read only."""

    def put_new(self, name: str, content: bytes | Path) -> bool:
        raise BucketError("403 Forbidden (AccessDenied)")


def seconds() -> float:
    return 0.0


def test_a_directory_has_all_there_is_to_have(tmp_path: Path) -> None:
    bucket = DirectoryBucket(tmp_path)
    bucket.put_new("log/1", b"stays")
    findings = examine_bucket(bucket, "1", seconds)
    assert {finding.severity for finding in findings} == {Severity.OK}
    assert [finding.text for finding in findings if finding.about.startswith("time")] == [
        "0.0 ms",
        "0.0 ms",
    ]
    assert [stored.name for stored in bucket.objects("")] == ["log/1"]
    bucket.close()


@pytest.mark.parametrize(
    ("kind", "about", "severity", "text"),
    [
        (Overwriting, "create-only put", "fault", "missing"),
        (Racing, "create-only put", "fault", "missing when several put at once"),
        (Deaf, "ranged read", "fault", "not what was asked for"),
        (Late, "list after a write", "fault", "an object is missing that was just written"),
        (Forgetful, "list after a name", "fault", "not what was asked for"),
        (Keeping, "removal", "warning", "403 Forbidden (AccessDenied)"),
        (Unreadable, "read", "fault", "403 Forbidden (AccessDenied)"),
        (ReadOnly, "write", "fault", "403 Forbidden (AccessDenied)"),
    ],
)
def test_what_a_store_lacks_is_named(
    tmp_path: Path, kind: Callable[[Path], DirectoryBucket], about: str, severity: str, text: str
) -> None:
    bucket = kind(tmp_path)
    findings = {finding.about: finding for finding in examine_bucket(bucket, "1", seconds)}
    assert (findings[about].severity, findings[about].text) == (severity, text)
    assert findings[about].follows
    bucket.close()
