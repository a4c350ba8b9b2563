"""RDB files as a store that copies are made of."""

from pathlib import Path

from headgate.app.backends.copying.filling import unmark
from headgate.app.backends.plain.command_file import CommandFile
from headgate.app.backends.plain.rdb_file import RdbFile
from tests.unit.app.rdb.test_file import stream_parts, written
from tests.virtual_time import ManualClock


async def test_an_expiry_is_that_of_the_file_however_long_the_copy_took(tmp_path: Path) -> None:
    at_ms, clock = 2_000_000_000_000, ManualClock(1_000_000_000_000)
    path = tmp_path / "dump.rdb"
    path.write_bytes(written(b"\xfe\x00\xfc", at_ms.to_bytes(8, "little"), stream_parts(b"s")))
    source, parts = RdbFile(path, 0, clock), list[bytes]()

    clock.now_ms += 20_000
    await unmark(source, CommandFile(parts.append), b"s")
    source.close()

    assert b"".join(parts).split(b"\r\n")[2:7:2] == [b"PEXPIREAT", b"s", b"%d" % at_ms]
