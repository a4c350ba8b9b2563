"""`headgate check`."""

import json
from pathlib import Path
from typing import Any

import click

from headgate.app.cli.data_dir import data_dir_option
from headgate.app.cli.flags import json_option
from headgate.app.cli.manual import epilog
from headgate.app.runtime.logs.loading import show_progress
from headgate.engine.errors import Corrupt, NewerFormat, StreamError
from headgate.engine.journal import recovery
from headgate.engine.journal.disk import SystemDisk


@click.command(
    "check",
    epilog=epilog(
        "headgate check --data-dir data", failed="damaged and not repaired, or in use by a gateway"
    ),
)
@data_dir_option("Directory of the journal.", exists=True)
@click.option(
    "--repair",
    is_flag=True,
    help="Save everything up to the damage; what comes behind it is put into files of its own.",
)
@json_option
def command(data_dir: Path, repair: bool, as_json: bool) -> None:
    """Read a data directory as a start does, and report what is there."""
    try:
        disk = SystemDisk(data_dir)
        kept = recovery.repair(disk) if repair else []
        loaded = recovery.load(disk, progress=show_progress)
    except (StreamError, OSError) as error:
        can_help = isinstance(error, Corrupt) and not isinstance(error, NewerFormat)
        hint = "\n--repair saves what is before." if can_help and not repair else ""
        raise click.ClickException(f"{data_dir}: {error}{hint}") from None
    facts = _facts(disk, loaded, kept)
    click.echo(json.dumps(facts) if as_json else _text(facts))


def _facts(disk: SystemDisk, loaded: recovery.Loaded, kept: list[str]) -> dict[str, Any]:
    names = recovery.names_in_use(disk)
    return {
        "put_aside": kept,
        "files": [{"name": name, "size_bytes": disk.size_bytes(name)} for name in names],
        "records": loaded.position,
        **loaded.counts()._asdict(),
        "torn": None if loaded.torn is None else loaded.torn._asdict(),
    }


def _text(facts: dict[str, Any]) -> str:
    lines = [f"put aside into {name}" for name in facts["put_aside"]]
    lines += [f"{file['name']}  {file['size_bytes']} bytes" for file in facts["files"]]
    lines.append(
        "{records} records: {streams} streams, {entries} entries, {pending} pending".format(**facts)
    )
    if facts["torn"] is not None:
        lines.append(
            "{name} is torn at byte {offset}: {why}. The {size_bytes} bytes behind were never "
            "promised to anybody; the next start puts them aside.".format(**facts["torn"])
        )
    return "\n".join(lines)
