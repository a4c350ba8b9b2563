"""Machine: the smallest of all limits of memory counts."""

from pathlib import Path

import pytest

from headgate.app.runtime.machine import core_count, memory_bytes

MIB = 2**20


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(
    ("own", "around", "root", "expected"),
    [
        (f"{MIB}\n", f"{2 * MIB}\n", "max\n", MIB),
        ("max\n", f"{2 * MIB}\n", f"{3 * MIB}\n", 2 * MIB),
        ("max\n", "max\n", f"{3 * MIB}\n", 3 * MIB),
    ],
)
@pytest.mark.parametrize(
    ("line", "folder", "file"),
    [
        ("0::/slice/unit", "groups", "memory.max"),
        ("4:memory:/slice/unit", "groups/memory", "memory.limit_in_bytes"),
    ],
)
def test_the_smallest_limit_counts(
    tmp_path: Path,
    own: str,
    around: str,
    root: str,
    expected: int,
    line: str,
    folder: str,
    file: str,
) -> None:
    write(tmp_path / "of_us", f"9:name=systemd:/\n{line}\n")
    write(tmp_path / folder / "slice" / "unit" / file, own)
    write(tmp_path / folder / "slice" / file, around)
    write(tmp_path / folder / file, root)

    assert memory_bytes(tmp_path / "of_us", tmp_path / "groups") == expected


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
