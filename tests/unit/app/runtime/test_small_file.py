"""The stamp of a file: it changes when the file does."""

import os
from pathlib import Path

from headgate.app.runtime.small_file import stamp_of


def test_a_file_in_the_place_of_another_has_another_stamp(tmp_path: Path) -> None:
    file, other, link = tmp_path / "keys", tmp_path / "new", tmp_path / "link"
    for path in (file, other):
        path.write_text("a")
        os.utime(path, ns=(1, 1))
    link.symlink_to(file)
    before = stamp_of(file)
    assert stamp_of(link) == before
    other.rename(file)
    assert stamp_of(link) == stamp_of(file) != before
    assert stamp_of(other) is None
    other.symlink_to(other)
    assert "symbolic links" in str(stamp_of(other))
