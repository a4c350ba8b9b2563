"""A backup as a tar file, or on its way through a pipe."""

import io
import tarfile
from collections.abc import Iterator
from typing import IO

from headgate.engine.errors import Corrupt
from headgate.engine.journal import backup
from headgate.engine.journal.backup import FORMAT, MANIFEST, Manifest, TakenBackup
from headgate.engine.journal.disk import Disk
from headgate.engine.journal.moment import Moment, pieces_of
from headgate.engine.journal.names import is_finished
from headgate.engine.journal.recovery import Progress

_MANIFEST_BYTES_MAX = 64 * 2**20


def write_tar(source: Disk, target: IO[bytes], now_ms: int, progress: Progress) -> TakenBackup:
    """Back up a journal, which may be in use, into a tar file; the manifest comes last.

    Raises:
        Corrupt: a file is damaged.
        Unavailable: there is no journal.
        OSError: the target takes nothing.
    """
    files, done = [], 0
    with Moment(source) as moment, tarfile.open(fileobj=target, mode="w|") as tar:
        total = sum(moment.sizes.values())
        for name, size_bytes in moment.sizes.items():
            tar.addfile(_member(name, size_bytes, now_ms), moment.file(name))
            files.append(backup.summed(name, moment.pieces(name)))
            done += size_bytes
            progress(done, total)
        manifest = Manifest(FORMAT, moment.position, now_ms, files)
        data = backup.encoded(manifest)
        tar.addfile(_member(MANIFEST, len(data), now_ms), io.BytesIO(data))
    return TakenBackup(manifest, total)


def _member(name: str, size_bytes: int, now_ms: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size, member.mode, member.mtime = size_bytes, 0o600, now_ms / 1000
    return member


class TarBackup:
    """A backup in a tar file, which is read once from its beginning. It is a `Backup`."""

    def __init__(self, file: IO[bytes]) -> None:
        """Read from a file or a pipe."""
        self._file = file
        self._manifest: Manifest | None = None

    def files(self) -> Iterator[tuple[str, Iterator[bytes]]]:
        """Yield each file, with what it holds.

        Raises:
            Corrupt: it is no tar file of a backup.
        """
        try:
            with tarfile.open(fileobj=self._file, mode="r|") as tar:
                for member in tar:
                    content = tar.extractfile(member)
                    if content is None:
                        raise Corrupt(member.name, 0, "it is no file")
                    if member.issparse():  # a kilobyte may stand for a terabyte of zeros
                        raise Corrupt(member.name, 0, "it is a sparse file, and no backup has any")
                    if member.name == MANIFEST and member.size <= _MANIFEST_BYTES_MAX:
                        self._manifest = backup.decoded(content.read())
                    elif is_finished(member.name):
                        yield member.name, _pieces(content, member)
                    else:
                        raise Corrupt(member.name, 0, "it is no file of a backup")
        except tarfile.TarError as error:
            raise Corrupt("the tar file", 0, str(error)) from None

    def linked(self, name: str, target: Disk) -> bool:  # noqa: ARG002
        """Return false: a member of a tar file has no name of its own."""
        return False

    def manifest(self) -> Manifest:
        """Return the manifest.

        Raises:
            Corrupt: there is none.
        """
        if self._manifest is None:
            raise Corrupt(MANIFEST, 0, "it is missing, so the backup is not complete")
        return self._manifest


def _pieces(content: IO[bytes], member: tarfile.TarInfo) -> Iterator[bytes]:
    try:
        yield from pieces_of(content, member.name, member.size)
    except tarfile.TarError as error:
        raise Corrupt(member.name, 0, str(error)) from None
