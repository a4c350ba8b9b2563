"""The start of a gateway whose store answers badly for a while."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.app.backends import embedded
from headgate.app.backends.embedded import BucketOptions, EmbeddedOptions, open_embedded
from headgate.engine.bucket.replication import ReplicationOptions
from headgate.engine.errors import Unavailable


def test_a_store_that_does_not_answer_is_asked_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(embedded, "_PATIENCE_MS", 30)
    monkeypatch.setattr(embedded, "_PAUSE_S", 0.01)
    (tmp_path / "bucket").write_text("no directory")
    bucket = BucketOptions((tmp_path / "bucket").as_uri(), ReplicationOptions())
    options = EmbeddedOptions(tmp_path / "data", bucket=bucket)
    with pytest.raises(Unavailable, match=r"the bucket file:.*: Not a directory"):
        open_embedded(options)
    assert "bucket does not answer" in caplog.text
    (tmp_path / "bucket").unlink()
    open_embedded(options)
