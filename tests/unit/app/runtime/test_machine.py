"""Machine: limits of memory and cores, stamps of files, and departures in turns of the loop."""

import asyncio
import os
from functools import partial
from pathlib import Path

import pytest

from headgate.app.runtime.departures import LEAVERS_AT_ONCE_MAX, Departures
from headgate.app.runtime.machine import core_count, memory_bytes
from headgate.app.runtime.small_file import stamp_of

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


async def test_many_leave_in_turns_and_in_order() -> None:
    departures, gone, counts = Departures(), list[int](), list[int]()
    many = 5 * LEAVERS_AT_ONCE_MAX + 1
    for number in range(many):
        departures.add(partial(gone.append, number))
    while departures:
        counts.append(len(gone))
        await asyncio.sleep(0)
    counts.append(len(gone))

    assert gone == list(range(many))
    assert counts == [*range(LEAVERS_AT_ONCE_MAX, many, LEAVERS_AT_ONCE_MAX), many]


async def test_one_that_fails_does_not_hold_up_the_others() -> None:
    reported: list[object] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _, what: reported.append(what["exception"])
    )
    departures, gone, error = Departures(), list[int](), ValueError()

    def fail() -> None:
        raise error

    for number in range(LEAVERS_AT_ONCE_MAX):
        departures.add(partial(gone.append, number))
    departures.add(fail)
    for number in range(2 * LEAVERS_AT_ONCE_MAX):
        departures.add(partial(gone.append, number))
    for _ in range(10):
        await asyncio.sleep(0)

    assert not departures
    assert reported == [error]
    assert len(gone) == 3 * LEAVERS_AT_ONCE_MAX
