"""The stamp of a file: it changes when the file does."""

import os
from pathlib import Path

from headgate.app.runtime.small_file import stamp_of


def test_a_file_of_the_same_size_and_time_in_its_place_is_another(tmp_path: Path) -> None:
    file, other = tmp_path / "keys", tmp_path / "new"
    for path in (file, other):
        path.write_text("a")
        os.utime(path, ns=(1, 1))
    before = stamp_of(file)
    other.rename(file)
    assert stamp_of(file) != before


def test_a_link_has_the_stamp_of_the_file_to_which_it_leads(tmp_path: Path) -> None:
    first, second, link = tmp_path / "first", tmp_path / "second", tmp_path / "link"
    first.write_text("a")
    second.write_text("a")
    link.symlink_to(first)
    assert stamp_of(link) == stamp_of(first)
    link.unlink()
    link.symlink_to(second)
    assert stamp_of(link) == stamp_of(second) != stamp_of(first)


def test_a_missing_file_and_one_that_cannot_be_looked_at_differ(tmp_path: Path) -> None:
    link = tmp_path / "link"
    assert stamp_of(link) is None
    link.symlink_to(link)
    assert "symbolic links" in str(stamp_of(link))
