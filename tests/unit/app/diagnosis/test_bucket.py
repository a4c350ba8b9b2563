"""The examination of a bucket names each promise that its store breaks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headgate.app.diagnosis import Severity, examine_bucket
from headgate.engine.bucket.bucket import BucketError, StoredObject
from headgate.engine.bucket.directory import DirectoryBucket

Parent = DirectoryBucket


def refuse(*_: object) -> Any:
    raise BucketError("403 Forbidden (AccessDenied)")


def overwrite(self: Parent, name: str, content: bytes | Path) -> bool:
    self.remove([name])
    return Parent.put_new(self, name, content)


def look_then_put(self: Parent, name: str, content: bytes | Path) -> bool:
    return Parent.put_new(self, name, content) or "race" in name


def list_late(self: Any, prefix: str, after: str = "") -> list[StoredObject]:
    before, self.before = getattr(self, "before", []), Parent.objects(self, prefix)
    return [each for each in before if each.name > after]


def list_all(self: Parent, prefix: str, after: str = "") -> list[StoredObject]:
    return Parent.objects(self, prefix)


def read_whole(self: Parent, name: str, offset: int, size_bytes: int) -> bytes:
    return self.read(name)


def seconds() -> float:
    return 0.0


def test_a_directory_has_all_there_is_to_have(tmp_path: Path) -> None:
    bucket = DirectoryBucket(tmp_path)
    bucket.put_new("log/1", b"stays")
    findings = examine_bucket(bucket, "1", seconds)
    assert {finding.severity for finding in findings} == {Severity.OK}
    assert [finding.text for finding in findings if finding.about.startswith("time")] == [
        *("0.0 ms", "0.0 ms")
    ]
    assert [stored.name for stored in bucket.objects("")] == ["log/1"]
    bucket.close()


@pytest.mark.parametrize(
    ("method", "how", "about", "severity", "text"),
    [
        ("put_new", overwrite, "create-only put", "fault", "missing"),
        ("put_new", look_then_put, "create-only put", "fault", "missing for concurrent puts"),
        ("read_range", read_whole, "ranged read", "fault", "the range has the wrong content"),
        (
            *("objects", list_late, "list after a write", "fault"),
            "an object that was just written is missing",
        ),
        ("objects", list_all, "list after a name", "fault", "the list is wrong"),
        ("remove", refuse, "removal", "warning", "403 Forbidden (AccessDenied)"),
        ("read", refuse, "read", "fault", "403 Forbidden (AccessDenied)"),
        ("put_new", refuse, "write", "fault", "403 Forbidden (AccessDenied)"),
    ],
)
def test_what_a_store_lacks_is_named(
    tmp_path: Path, method: str, how: Any, about: str, severity: str, text: str
) -> None:
    bucket = type("Lacking", (Parent,), {method: how})(tmp_path)
    findings = {finding.about: finding for finding in examine_bucket(bucket, "1", seconds)}
    assert (findings[about].severity, findings[about].text) == (severity, text)
    assert findings[about].follows
    bucket.close()
