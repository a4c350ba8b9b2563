"""`headgate backup`."""

import json
import os
import sys
import time
from contextlib import closing
from functools import partial
from pathlib import Path

import click

from headgate.app.cli.backup_tar import write_tar
from headgate.app.cli.data_dir import data_dir_option
from headgate.app.cli.descriptors import take_all_descriptors
from headgate.app.cli.flags import json_option
from headgate.app.cli.manual import epilog
from headgate.app.cli.output.counts import counted
from headgate.app.runtime.logs.loading import show_progress
from headgate.engine.bucket.tiers import tiered
from headgate.engine.errors import StreamError
from headgate.engine.journal.backup import TakenBackup, take
from headgate.engine.journal.disk import Disk, SystemDisk

_HELP = """\
Back up the data of a gateway, which may be running.

TARGET is a directory, a file that ends in .tar, or - for standard output. A directory may hold an
earlier backup: then only what is new is copied, and an interrupted backup leaves the earlier one
as it was. On the same file system it shares files that do not change any more with the gateway,
and they take no room. The backup is the state at one moment, and has everything that was
acknowledged before. The gateway is not asked: this needs to read its data directory, as the
gateway's user.

\b
headgate backup --data-dir data backups/orders
headgate backup --data-dir data orders.tar
ssh gateway headgate backup --data-dir /var/lib/headgate - > orders.tar

Not in it: the keys file, chunks of batches that are not committed, the secret of tickets.
With --backend the servers keep the streams, so back those up.
"""

_progress = partial(show_progress, what="Backing up")


@click.command(
    "backup",
    help=_HELP,
    short_help="Back up the data of a gateway that runs.",
    epilog=epilog(failed="a file is damaged, or the target takes nothing"),
)
@click.argument("target", type=click.Path(path_type=Path, allow_dash=True))
@data_dir_option("Directory of the journal.", exists=True)
@json_option
def command(target: Path, data_dir: Path, as_json: bool) -> None:
    """Back up the data of a gateway."""
    is_pipe = str(target) == "-"
    if is_pipe and sys.stdout.isatty():
        raise click.UsageError("a terminal is no place for a tar file: > orders.tar")
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
        f"of which {taken.copied_bytes} were copied"
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
