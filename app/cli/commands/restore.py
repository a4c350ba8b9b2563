"""`headgate restore`."""

import json
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import click

from headgate.app.cli.backup_tar import TarBackup
from headgate.app.cli.data_dir import data_dir_option
from headgate.app.cli.flags import json_option
from headgate.app.cli.manual import epilog
from headgate.app.cli.output.counts import contents, counted
from headgate.app.runtime.logs.loading import show_progress
from headgate.engine.errors import StreamError
from headgate.engine.journal import recovery
from headgate.engine.journal.backup import Backup, Directory, Manifest, restore, verify
from headgate.engine.journal.disk import SystemDisk

_HELP = """\
Put a backup into a data directory that has no journal yet, and verify it.

SOURCE is what `headgate backup` has written: a directory, a tar file, or - for standard input.
Every file is compared with its checksum, and then loaded as a start of the gateway does. If
anything is wrong nothing is left behind.

\b
headgate restore backups/orders --data-dir data
headgate restore orders.tar --verify-only
ssh vault cat orders.tar | headgate restore - --data-dir /var/lib/headgate
"""


@click.command(
    "restore",
    help=_HELP,
    short_help="Put a backup into a new data directory.",
    epilog=epilog(failed="the backup is damaged, or there is a journal already"),
)
@click.argument("source", type=click.Path(path_type=Path, allow_dash=True))
@data_dir_option("Where a gateway will find it.", exists=False)
@click.option("--verify-only", is_flag=True, help="Compare all checksums, and restore nothing.")
@json_option
def command(source: Path, data_dir: Path, verify_only: bool, as_json: bool) -> None:
    """Restore a backup."""
    try:
        with _opened(source) as backup:
            if verify_only:
                manifest = verify(backup)
                size = f"{counted(manifest.position, 'record')} in {manifest.size_bytes} bytes"
                _show(manifest, f"{source} is whole: {size}", as_json)
                return
            with closing(SystemDisk(data_dir)) as target:
                manifest = restore(backup, target)
                loaded = recovery.load(target, progress=show_progress)
    except StreamError as error:
        raise click.ClickException(f"{source}: {error}") from None
    except OSError as error:
        raise click.ClickException(str(error)) from None
    counts = loaded.counts()
    text = f"{data_dir} holds {manifest.size_bytes} bytes, {contents(manifest.position, *counts)}"
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
