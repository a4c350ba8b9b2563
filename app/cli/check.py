"""`headgate check`."""

from pathlib import Path

import click

from headgate.app.runtime.loading import show_progress
from headgate.engine.errors import Corrupt, NewerFormat, StreamError
from headgate.engine.journal import recovery
from headgate.engine.journal.disk import SystemDisk


@click.command("check", epilog="Example: headgate check --data-dir data")
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, exists=True, path_type=Path),
    default=Path("data"),
    show_default=True,
    help="Where the journal is kept.",
)
@click.option(
    "--repair",
    is_flag=True,
    help="Save everything up to the damage; what comes behind it is put into files of its own.",
)
def command(data_dir: Path, repair: bool) -> None:
    """Read a data directory as a start does, and report what is there.

    Ends with 1 if it is damaged and was not repaired.
    """
    try:
        disk = SystemDisk(data_dir)
        kept = recovery.repair(disk) if repair else []
        loaded = recovery.load(disk, progress=show_progress)
    except (StreamError, OSError) as error:
        can_help = isinstance(error, Corrupt) and not isinstance(error, NewerFormat)
        hint = "\n--repair saves what is before." if can_help and not repair else ""
        raise click.ClickException(f"{data_dir}: {error}{hint}") from None
    for name in kept:
        click.echo(f"put aside into {name}")
    for name in recovery.names_in_use(disk):
        click.echo(f"{name}  {disk.size_bytes(name)} bytes")
    streams = loaded.keyspace.streams.values()
    pending = sum(len(group.pel) for stream in streams for group in stream.groups.values())
    entries = sum(stream.log.length for stream in streams)
    click.echo(
        f"{loaded.position} records: {len(streams)} streams, {entries} entries, {pending} pending"
    )
    if loaded.torn is not None:
        torn = loaded.torn
        click.echo(
            f"{torn.name} is torn at byte {torn.offset}: {torn.why}. The {torn.size_bytes} bytes "
            "behind were never promised to anybody; the next start puts them aside."
        )
