"""A journal copied while it is written to, and put back; whatever goes wrong on the way."""

import asyncio
import errno
import io
import tarfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import BinaryIO, Literal

import pytest

from headgate.app.cli.commands.backup import TarBackup, write_tar
from headgate.engine.errors import Corrupt, Unavailable
from headgate.engine.journal import extents, names, recovery
from headgate.engine.journal.backup import MANIFEST, Directory, TakenBackup, restore, take, verify
from headgate.engine.journal.damage import examine
from headgate.engine.journal.disk import Disk, SystemDisk
from headgate.engine.journal.names import extents_name, journal_name, snapshot_name
from headgate.engine.journal.records import HEADER_BYTES
from headgate.engine.journal.recovery import no_progress
from tests.journals.frozen import COLD, HOT, POSITION, contents, frozen
from tests.journals.memory_disk import Death, Killed, MemoryDisk
from tests.journals.records import History, recorded, written
from tests.model.snapshot import snapshot

NOW_MS = 1_700_000_000_000
HISTORIES = 3
EXTENTS = extents_name(1)
FILES = 50


class Rewritten(MemoryDisk):
    """A disk on which a rewrite ends as soon as somebody opens the first file."""

    def __init__(self, before: MemoryDisk, after: MemoryDisk) -> None:
        super().__init__({name: bytes(data) for name, data in before.files.items()})
        self._after = after

    def open(self, name: str) -> BinaryIO:
        file = super().open(name)
        self.files = self._after.files
        return file


async def grown(seed: int) -> tuple[History, History, History]:
    """Return a history as it was, as it went on, and as it was rewritten."""
    records = (await recorded(seed, 60))[:30]
    return (
        await written(records[:20], restart_at=10),
        await written(records[:30], restart_at=10),
        await written(records[:30], restart_at=10, rewrite_at=25),
    )


def back_up(source: Disk, target: Disk) -> TakenBackup:
    return take(source, target, NOW_MS)


def restored(backup: Disk) -> recovery.Loaded:
    """Return the state of a backup, once it was restored."""
    target = MemoryDisk()
    manifest = restore(Directory(backup), target)
    loaded = recovery.load(target)
    assert (loaded.position, loaded.torn) == (manifest.position, None)
    return loaded


@pytest.mark.parametrize("seed", range(HISTORIES))
async def test_a_backup_has_the_state_of_its_moment(seed: int) -> None:
    for history in await grown(seed):
        backup = MemoryDisk()
        taken = back_up(history.disk, backup)
        loaded = restored(backup)

        assert loaded.position == len(history.states) - 1
        assert snapshot(loaded.keyspace) == history.states[-1]
        assert taken.copied_bytes == taken.manifest.size_bytes
        assert verify(Directory(backup)) == taken.manifest


async def test_a_write_under_way_is_left_out() -> None:
    history, *_ = await grown(1)
    last = recovery.names_in_use(history.disk)[-1]
    first = names.position_of(last)
    positions = []
    for size_bytes in range(32, history.disk.size_bytes(last)):
        disk = history.disk.copy()
        disk.truncate(last, size_bytes)
        backup = MemoryDisk()
        back_up(disk, backup)
        loaded = restored(backup)
        assert snapshot(loaded.keyspace) == history.states[loaded.position]
        positions.append(loaded.position)

    assert positions == sorted(positions)
    assert set(positions) == set(range(first - 1, len(history.states) - 1))


async def test_damage_to_what_was_safe_is_no_write_under_way() -> None:
    history, *_ = await grown(1)
    last = recovery.names_in_use(history.disk)[-1]
    history.disk.files[last][HEADER_BYTES + 10] ^= 1
    backup = MemoryDisk()

    with pytest.raises(Corrupt, match=f"^{last}, byte {HEADER_BYTES}: "):
        back_up(history.disk, backup)
    assert backup.names() == []


async def test_a_backup_that_finds_no_room_leaves_none_taken() -> None:
    history, *_ = await grown(1)
    backup = MemoryDisk(size_bytes_max=500)

    with pytest.raises(OSError, match="No space left"):
        back_up(history.disk, backup)
    assert backup.names() == []


async def test_another_backup_copies_what_is_new() -> None:
    before, after, rewritten = await grown(2)
    backup = MemoryDisk()
    back_up(before.disk, backup)
    again = back_up(before.disk, backup)
    on = back_up(after.disk, backup)

    last = recovery.names_in_use(after.disk)[-1]
    assert again.copied_bytes == 0
    assert on.copied_bytes == after.disk.size_bytes(last)
    assert snapshot(restored(backup).keyspace) == after.states[-1]

    names = [file.name for file in back_up(rewritten.disk, backup).manifest.files]
    assert names == recovery.names_in_use(rewritten.disk)
    assert backup.names() == sorted([MANIFEST, *names])
    assert names[0] == snapshot_name(25)


async def test_a_backup_goes_on_when_a_rewrite_removes_files() -> None:
    _, before, after = await grown(1)
    backup = MemoryDisk()
    back_up(Rewritten(before.disk, after.disk), backup)

    assert snapshot(restored(backup).keyspace) == after.states[-1]


@pytest.mark.parametrize("is_rewritten", [False, True])
async def test_an_interrupted_backup_leaves_the_earlier_one(is_rewritten: bool) -> None:
    before, *later = await grown(1)
    after = later[is_rewritten]
    earlier = MemoryDisk()
    back_up(before.disk, earlier)
    positions = []
    for act_count in range(100):
        backup = earlier.copy()
        backup.on_call = Death(act_count)
        is_done = works(back_up, after.disk, backup)
        loaded = restored(backup)
        assert snapshot(loaded.keyspace) == after.states[loaded.position]
        positions.append(loaded.position)
        backup = backup.copy()
        back_up(after.disk, backup)
        assert restored(backup).position == len(after.states) - 1
        if is_done:
            break

    assert positions == sorted(positions)
    assert set(positions) == {len(before.states) - 1, len(after.states) - 1}


async def test_an_interrupted_restore_is_no_journal_until_it_is_whole() -> None:
    _, _, history = await grown(2)
    backup = MemoryDisk()
    back_up(history.disk, backup)
    kinds = set()
    for act_count in range(100):
        target = MemoryDisk()
        target.on_call = Death(act_count)
        is_done = works(restore, Directory(backup), target)
        try:
            loaded = recovery.load(target)
        except Corrupt:
            kinds.add("refused")
        else:
            assert snapshot(loaded.keyspace) == history.states[loaded.position]
            kinds.add({0: "empty", len(history.states) - 1: "whole"}[loaded.position])
        if is_done:
            break

    assert kinds == {"empty", "refused", "whole"}


def works(act: Callable[..., object], *arguments: object) -> bool:
    try:
        act(*arguments)
    except Killed:
        return False
    return True


async def test_damage_of_a_backup_is_seen_and_nothing_is_restored() -> None:
    _, _, history = await grown(1)
    backup = MemoryDisk()
    taken = back_up(history.disk, backup)
    for file in taken.manifest.files:
        for offset in range(0, file.size_bytes, 7):
            backup.files[file.name][offset] ^= 1
            target = MemoryDisk()
            with pytest.raises(Corrupt, match=f"^{file.name}, "):
                verify(Directory(backup))
            with pytest.raises(Corrupt, match=f"^{file.name}, "):
                restore(Directory(backup), target)
            assert target.names() == []
            backup.files[file.name][offset] ^= 1


@pytest.mark.parametrize(
    ("manifest", "why"),
    [
        (b"", "truncated"),
        (b"{}", "missing required field"),
        (b"\xff\xfe", "invalid|decode|malformed"),
        (b'{"format": 2, "position": 0, "taken_ms": 0, "files": []}', "use a newer Headgate"),
        (
            b'{"format":1,"position":0,"taken_ms":0,"files":[{"name":"../k","size_bytes":1,"crc32c":1}]}',
            "'../k' is no file of a backup",
        ),
    ],
)
def test_a_manifest_that_makes_no_sense_is_refused(manifest: bytes, why: str) -> None:
    with pytest.raises(Corrupt, match=f"(?i)^backup.json, .*({why})"):
        Directory(MemoryDisk({MANIFEST: manifest}))


async def test_only_a_backup_of_the_same_journal_is_gone_on_with() -> None:
    history, *_ = await grown(1)
    other, *_ = await grown(2)
    backup = MemoryDisk()
    back_up(other.disk, backup)
    kept = backup.copy()

    with pytest.raises(Unavailable, match="a backup of another journal"):
        back_up(history.disk, backup)
    with pytest.raises(Unavailable, match="a journal, and not a backup"):
        back_up(history.disk, other.disk)
    with pytest.raises(Unavailable, match="a journal already"):
        restore(Directory(backup), history.disk)
    with pytest.raises(Unavailable, match="there is no journal"):
        back_up(MemoryDisk(), MemoryDisk())
    assert backup.files == kept.files


# Tar files


async def test_a_tar_file_that_is_cut_off_is_refused() -> None:
    _, _, history = await grown(1)
    file = io.BytesIO()
    write_tar(history.disk, file, NOW_MS, no_progress)
    whole = file.getvalue().rstrip(b"\0")
    for size_bytes in range(0, len(whole), 97):
        target = MemoryDisk()
        with pytest.raises(Corrupt):
            restore(TarBackup(io.BytesIO(whole[:size_bytes])), target)
        assert target.names() == []


@pytest.mark.parametrize("name", ["../evil", "/etc/passwd", "keys.json", journal_name(1) + ".new"])
def test_a_tar_file_with_other_files_is_refused(name: str) -> None:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        member = tarfile.TarInfo(name)
        member.size = 1
        tar.addfile(member, io.BytesIO(b"x"))
    file.seek(0)
    target = MemoryDisk()
    with pytest.raises(Corrupt, match="not a file of a backup"):
        restore(TarBackup(file), target)
    assert target.names() == []


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize("does", [verify, lambda backup: restore(backup, MemoryDisk())])
def test_a_sparse_file_is_refused_and_its_zeros_are_not_made(
    form: Literal[1, 2], does: Callable[[TarBackup], object]
) -> None:
    member = tarfile.TarInfo(journal_name(1))
    member.size, terabyte = 512, 2**40
    if form == tarfile.PAX_FORMAT:
        member.pax_headers = {"GNU.sparse.size": str(terabyte), "GNU.sparse.map": "0,512"}
    header = bytearray(member.tobuf(form))
    if form == tarfile.GNU_FORMAT:
        header[156:157] = tarfile.GNUTYPE_SPARSE
        header[386:410] = b"%011o\0%011o\0" % (0, 512)
        header[483:495] = b"\x80" + terabyte.to_bytes(11, "big")
        header[148:156] = b" " * 8
        header[148:156] = b"%06o\0 " % sum(header)
    with pytest.raises(Corrupt, match="sparse"):
        does(TarBackup(io.BytesIO(bytes(header) + bytes(512 * 4))))


# Extent files


def cold_entries(backup: MemoryDisk) -> dict[bytes, list[int]]:
    """Return the entries of a backup of frozen streams, once it was restored."""
    target = MemoryDisk()
    restore(Directory(backup), target)
    return contents(target)


async def test_extent_files_are_linked_and_go_back_by_links() -> None:
    disk, backup, target = await frozen(b"a"), MemoryDisk(), MemoryDisk()
    taken = back_up(disk, backup)
    assert backup.files[EXTENTS] is disk.files[EXTENTS]
    assert taken.copied_bytes == disk.size_bytes(snapshot_name(POSITION))
    assert taken.manifest.position == POSITION
    assert verify(Directory(backup)) == taken.manifest
    restore(Directory(backup), target)
    assert target.files[EXTENTS] is disk.files[EXTENTS]
    assert contents(target) == {b"a": [*COLD, *HOT]}
    assert EXTENTS not in backup.appended + target.appended


@pytest.mark.parametrize("error", [errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP])
async def test_extent_files_are_copied_where_no_link_can_be(error: int) -> None:
    disk, backup, target = await frozen(b"a"), MemoryDisk(), MemoryDisk()
    disk.faults["link"] = backup.faults["link"] = error
    taken = back_up(disk, backup)
    assert taken.copied_bytes == taken.manifest.size_bytes
    assert backup.files[EXTENTS] is not disk.files[EXTENTS]
    restore(Directory(backup), target)
    assert contents(target) == {b"a": [*COLD, *HOT]}
    assert back_up(disk, backup).copied_bytes == 0


async def test_only_extent_files_that_the_snapshot_names_are_taken() -> None:
    disk, backup = await frozen(b"a"), MemoryDisk()
    disk.files[extents_name(2)] = bytearray(b"of a rewrite that has not written its snapshot")
    taken = back_up(disk, backup)
    assert [file.name for file in taken.manifest.files] == [snapshot_name(POSITION), EXTENTS]


async def test_a_backup_goes_on_when_a_rewrite_removes_extent_files() -> None:
    disk, backup = await frozen(b"a"), MemoryDisk()
    disk.on_call = lambda call, _: call == "link" and disk.files.pop(EXTENTS)
    taken = back_up(disk, backup)
    assert EXTENTS not in disk.names()
    assert taken.copied_bytes == taken.manifest.size_bytes
    assert cold_entries(backup) == {b"a": [*COLD, *HOT]}


async def test_a_file_that_has_got_the_name_of_another_meanwhile_is_not_linked() -> None:
    before, other = await frozen(b"a"), await frozen(b"b")

    class Renumbered(MemoryDisk):
        """A disk on which another file gets the number of one that has gone."""

        def link(self, name: str, target: Disk, to: str) -> None:
            self.files[EXTENTS] = other.files[EXTENTS]
            super().link(name, target, to)

    backup = MemoryDisk()
    back_up(Renumbered({name: bytes(data) for name, data in before.files.items()}), backup)
    assert cold_entries(backup) == {b"a": [*COLD, *HOT]}


async def test_damage_of_a_linked_backup_is_seen() -> None:
    disk, backup = await frozen(b"a"), MemoryDisk()
    back_up(disk, backup)
    disk.files[EXTENTS][-1] ^= 1  # it is the same file
    target = MemoryDisk()
    with pytest.raises(Corrupt, match=f"^{EXTENTS}, "):
        restore(Directory(backup), target)
    assert target.names() == []


async def test_a_tar_file_is_a_backup_with_its_extent_files() -> None:
    disk, file, target = await frozen(b"a"), io.BytesIO(), MemoryDisk()
    taken = write_tar(disk, file, NOW_MS, no_progress)
    file.seek(0)
    assert verify(TarBackup(file)) == taken.manifest
    file.seek(0)
    assert restore(TarBackup(file), target) == taken.manifest
    assert contents(target) == {b"a": [*COLD, *HOT]}


def test_many_extent_files_are_linked_and_only_new_ones_later(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(extents, "EXTENT_FILE_BYTES_MAX", 1)
    names = [b"%d" % number for number in range(FILES)]
    made = asyncio.run(frozen(*names))
    data = tmp_path / "data"
    data.mkdir()
    for name, content in made.files.items():
        (data / name).write_bytes(content)
    with (
        closing(SystemDisk(data, is_shared=True)) as disk,
        closing(SystemDisk(tmp_path / "backup")) as backup,
        closing(SystemDisk(tmp_path / "restored")) as target,
    ):
        taken = back_up(disk, backup)
        assert len(taken.manifest.files) == FILES + 1
        assert taken.copied_bytes == disk.size_bytes(snapshot_name(POSITION))
        assert (tmp_path / "backup" / EXTENTS).samefile(data / EXTENTS)

        (tmp_path / "backup" / EXTENTS).unlink()
        assert back_up(disk, backup).copied_bytes == 0
        assert (tmp_path / "backup" / EXTENTS).samefile(data / EXTENTS)

        restore(Directory(backup), target)
        assert len(recovery.load(target).keyspace.memory.files) == FILES
        assert not any(examine(target, recovery.load(target).keyspace))
