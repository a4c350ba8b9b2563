import io
import json
import os
import sys
import tarfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import IO

import click

from headgate.app.cli.data_dir import data_dir_option, take_all_descriptors
from headgate.app.cli.declaration import argument, command, option
from headgate.app.cli.listing import contents, counted
from headgate.app.data_files import KEYS_FILE, NOT_IN_BACKUPS
from headgate.app.runtime.logs import show_progress
from headgate.engine.bucket.tiers import tiered
from headgate.engine.errors import Corrupt, StreamError
from headgate.engine.journal import backup, recovery
from headgate.engine.journal.backup import (
    FORMAT,
    MANIFEST,
    Backup,
    Directory,
    Manifest,
    TakenBackup,
    restore,
    take,
    verify,
)
from headgate.engine.journal.disk import Disk, SystemDisk
from headgate.engine.journal.moment import Moment, pieces_of
from headgate.engine.journal.names import is_finished
from headgate.engine.journal.recovery import Progress

_MANIFEST_BYTES_MAX = 64 * 2**20


def write_tar(source: Disk, target: IO[bytes], now_ms: int, progress: Progress) -> TakenBackup:
    """Back up a journal, which may be in use, into a tar file; the manifest comes last."""
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
    """A `Backup` in a tar file, which is read once from its beginning."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._manifest: Manifest | None = None

    def files(self) -> Iterator[tuple[str, Iterator[bytes]]]:
        """Yield each file and its content. Raises Corrupt if this is no tar file of a backup."""
        try:
            with tarfile.open(fileobj=self._file, mode="r|") as tar:
                for member in tar:
                    content = tar.extractfile(member)
                    if content is None:
                        raise Corrupt(member.name, 0, "not a regular file")
                    if member.issparse():  # a kilobyte may stand for a terabyte of zeros
                        raise Corrupt(member.name, 0, "sparse files are not allowed in a backup")
                    if member.name == MANIFEST and member.size <= _MANIFEST_BYTES_MAX:
                        self._manifest = backup.decoded(content.read())
                    elif is_finished(member.name):
                        yield member.name, _pieces(content, member)
                    else:
                        raise Corrupt(member.name, 0, "not a file of a backup")
        except tarfile.TarError as error:
            raise Corrupt("the tar file", 0, str(error)) from None

    def linked(self, name: str, target: Disk) -> bool:  # noqa: ARG002
        return False

    def manifest(self) -> Manifest:
        if self._manifest is None:
            raise Corrupt(MANIFEST, 0, "missing, so the backup is incomplete")
        return self._manifest


def _pieces(content: IO[bytes], member: tarfile.TarInfo) -> Iterator[bytes]:
    try:
        yield from pieces_of(content, member.name, member.size)
    except tarfile.TarError as error:
        raise Corrupt(member.name, 0, str(error)) from None


_progress = partial(show_progress, what="Backing up")


@command(
    "backup",
    failed="a file is damaged, or the target cannot be written",
    short_help="Back up the data of a running gateway.",
)
def backup_command(
    as_json: bool,
    target: Path = argument(click.Path(path_type=Path, allow_dash=True)),
    data_dir: Path = data_dir_option("Data directory of the gateway.", exists=True),
) -> None:
    """Back up the data of a gateway. The gateway may be running.

    TARGET is a directory, a file whose name ends in .tar, or - for standard output. The command
    reads the data directory and does not contact the gateway: run it as the gateway's user.

    The backup is the state at one moment. It contains everything acknowledged before that.

    If the target directory contains an earlier backup, only new data is copied. If the command is
    interrupted, the earlier backup stays intact. On the same file system, the backup and the
    gateway share files that no longer change, so these files need no additional space. An existing
    tar file is replaced.

        headgate backup --data-dir data backups/orders
        headgate backup --data-dir data orders.tar
        ssh gateway headgate backup --data-dir /var/lib/headgate - > orders.tar

    The backup does not include chunks of uncommitted batches and secrets: copy keys.json, push.key
    and ticket-secret from the data directory as well. With --backend, the servers keep the streams:
    back up the servers.
    """
    is_pipe = str(target) == "-"
    if is_pipe and sys.stdout.isatty():
        raise click.UsageError("cannot write a tar file to a terminal; redirect it: > orders.tar")
    take_all_descriptors()  # each file of the journal needs one
    try:
        with closing(SystemDisk(data_dir, is_shared=True)) as source:
            files = tiered(source)
            taken = _into_pipe(files) if is_pipe else _into(files, target)
    except StreamError as error:
        raise click.ClickException(f"{data_dir} to {target}: {error}") from None
    except OSError as error:
        raise click.ClickException(str(error)) from None
    manifest = taken.manifest
    facts = {
        "position": manifest.position,
        "size_bytes": manifest.size_bytes,
        "copied_bytes": taken.copied_bytes,
        "files": [file.name for file in manifest.files],
    }
    text = (
        f"{counted(manifest.position, 'record')} in {manifest.size_bytes} bytes, "
        f"{taken.copied_bytes} bytes copied"
    )
    click.echo(json.dumps(facts) if as_json else text, err=is_pipe)


def _into_pipe(source: Disk) -> TakenBackup:
    return write_tar(source, sys.stdout.buffer, time.time_ns() // 1_000_000, _progress)


def _into(source: Disk, target: Path) -> TakenBackup:
    if target.suffix != ".tar":
        with closing(SystemDisk(target)) as disk:
            return take(source, disk, time.time_ns() // 1_000_000, progress=_progress)
    unfinished = target.with_name(f"{target.name}.new")
    unfinished.touch(0o600)
    try:
        with unfinished.open("wb") as file:
            taken = write_tar(source, file, time.time_ns() // 1_000_000, _progress)
            os.fsync(file.fileno())
        unfinished.rename(target)
    finally:
        unfinished.unlink(missing_ok=True)  # it takes room
    return taken


@command(
    "restore",
    failed="the backup is damaged, or the data directory already has a journal",
    short_help="Restore a backup into a new data directory.",
)
def restore_command(
    as_json: bool,
    source: Path = argument(click.Path(path_type=Path, allow_dash=True)),
    data_dir: Path = data_dir_option("Data directory to create.", exists=False),
    verify_only: bool = option("Verify all checksums, but restore nothing."),
) -> None:
    """Restore a backup into a data directory that has no journal yet, and verify it.

    SOURCE is the output of `headgate backup`: a directory, a tar file, or - for standard input.
    The command verifies the checksum of every file, and then loads the data as the gateway does at
    start. If a check fails, it leaves nothing behind.

        headgate restore backups/orders --data-dir data
        headgate restore orders.tar --verify-only
        ssh vault cat orders.tar | headgate restore - --data-dir /var/lib/headgate
    """
    try:
        with _opened(source) as backup:
            if verify_only:
                manifest = verify(backup)
                size = f"{counted(manifest.position, 'record')} in {manifest.size_bytes} bytes"
                _show(manifest, f"{source} is intact: {size}", as_json)
                return
            with closing(SystemDisk(data_dir)) as target:
                manifest = restore(backup, target)
                loaded = recovery.load(target, progress=show_progress)
    except StreamError as error:
        raise click.ClickException(f"{source}: {error}") from None
    except OSError as error:
        raise click.ClickException(str(error)) from None
    counts = loaded.counts()
    size = contents(manifest.position, *counts)
    text = f"{data_dir} contains {manifest.size_bytes} bytes, {size}"
    if not (data_dir / KEYS_FILE).exists():
        text += f"\nA backup has no secrets: copy {', '.join(NOT_IN_BACKUPS)} as well."
    _show(manifest, text, as_json, **counts._asdict())


@contextmanager
def _opened(source: Path) -> Iterator[Backup]:
    progress = partial(show_progress, what="Reading")
    if str(source) == "-":
        yield TarBackup(sys.stdin.buffer)
    elif source.is_dir():
        with closing(SystemDisk(source, is_shared=True)) as disk:
            yield Directory(disk, progress)
    else:
        with source.open("rb") as file:
            yield TarBackup(file)


def _show(manifest: Manifest, text: str, as_json: bool, **facts: int) -> None:
    sizes = {"position": manifest.position, "size_bytes": manifest.size_bytes}
    click.echo(json.dumps({**sizes, "taken_ms": manifest.taken_ms, **facts}) if as_json else text)
