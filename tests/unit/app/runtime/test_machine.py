"""Machine: the smallest of all limits of memory counts."""

from pathlib import Path

import pytest

from headgate.app.runtime.machine import memory_bytes

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
