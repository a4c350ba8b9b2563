"""Machine: the smallest of all limits of memory counts."""

from pathlib import Path

import pytest

from headgate.app.runtime.machine import core_count, memory_bytes

MIB = 2**20


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(
    ("line", "folder", "file"),
    [
        ("0::/slice/unit", "groups", "memory.max"),
        ("4:memory:/slice/unit", "groups/memory", "memory.limit_in_bytes"),
    ],
)
def test_the_smallest_limit_counts(tmp_path: Path, line: str, folder: str, file: str) -> None:
    write(tmp_path / "of_us", f"9:name=systemd:/\n{line}\n")
    for *limits, expected in ((1, 2, None, 1), (None, 2, 3, 2), (None, None, 3, 3)):
        for place, limit in zip(("slice/unit", "slice", ""), limits, strict=True):
            write(tmp_path / folder / place / file, f"{limit * MIB if limit else 'max'}\n")
        assert memory_bytes(tmp_path / "of_us", tmp_path / "groups") == (expected or 0) * MIB


@pytest.mark.parametrize(
    ("limit", "count"),
    [("100000 100000", 1), ("150000 100000", 1), ("50000 100000", 1), ("max 100000", None)],
)
def test_a_control_group_bounds_cores(tmp_path: Path, limit: str, count: int | None) -> None:
    group = tmp_path / "groups" / "outer" / "inner"
    group.mkdir(parents=True)
    (tmp_path / "of_us").write_text("0::/outer/inner\n")
    (group.parent / "cpu.max").write_text(f"{limit}\n")

    expected = core_count(tmp_path / "none", tmp_path) if count is None else count
    assert core_count(tmp_path / "of_us", tmp_path / "groups") == expected
