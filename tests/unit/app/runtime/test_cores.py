from pathlib import Path

import pytest

from headgate.app.runtime.machine import core_count


def of_machine(tmp_path: Path) -> int:
    """Return the number of cores without a limit by control groups."""
    return core_count(tmp_path / "none", tmp_path)


@pytest.mark.parametrize(
    ("limit", "count"),
    [("100000 100000", 1), ("150000 100000", 1), ("50000 100000", 1), ("max 100000", None)],
)
def test_a_control_group_of_version_2_bounds_the_cores(
    tmp_path: Path, limit: str, count: int | None
) -> None:
    group = tmp_path / "groups" / "outer" / "inner"
    group.mkdir(parents=True)
    (tmp_path / "of_us").write_text("0::/outer/inner\n")
    (group.parent / "cpu.max").write_text(f"{limit}\n")

    expected = of_machine(tmp_path) if count is None else count
    assert core_count(tmp_path / "of_us", tmp_path / "groups") == expected
