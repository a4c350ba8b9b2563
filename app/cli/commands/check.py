"""`headgate check`."""

import json
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import click

from headgate.app.cli.data_dir import data_dir_option
from headgate.app.cli.flags import json_option
from headgate.app.cli.manual import epilog
from headgate.app.cli.output.counts import contents, counted, counted_entries
from headgate.app.cli.words import one_line
from headgate.app.runtime.logs.loading import show_progress
from headgate.engine.bucket.marker import read_marker
from headgate.engine.bucket.tiers import tiered
from headgate.engine.errors import Corrupt, NewerFormat, StreamError
from headgate.engine.journal import recovery
from headgate.engine.journal.damage.examination import cold_files, examine
from headgate.engine.journal.damage.repair import Repaired, repair
from headgate.engine.journal.disk import Disk, SystemDisk
from headgate.engine.journal.extents.files import read_or_lose
from headgate.engine.journal.names import extents_name
from headgate.engine.state.extents.missing import Damaged

_progress = partial(show_progress, what="Reading what is cold,")


@click.command(
    "check",
    epilog=epilog(
        "headgate check --data-dir data", failed="damaged and not repaired, or in use by a gateway"
    ),
)
@data_dir_option("Directory of the journal.", exists=True)
@click.option(
    "--repair",
    "is_repaired",
    is_flag=True,
    help="Go on without what is damaged; that is put into files of its own.",
)
@json_option
def command(data_dir: Path, is_repaired: bool, as_json: bool) -> None:
    """Read a data directory as a start does, and all entries on disk, and report what is there."""
    try:
        directory = SystemDisk(data_dir)
        if is_repaired and read_marker(directory) is not None:
            raise click.ClickException(f"{data_dir}: {_IN_BUCKET}")
        disk = tiered(directory)
        repaired = repair(disk, _progress) if is_repaired else Repaired([], [], {})
        loaded = recovery.load(disk, progress=show_progress, read_extent=read_or_lose)
        # A repair has just read all of it.
        cold = [] if is_repaired else examine(disk, loaded.keyspace, _progress)
        damaged = [*loaded.damaged, *cold]
        facts = _facts(disk, loaded, repaired, damaged)
    except (StreamError, OSError) as error:
        can_help = isinstance(error, Corrupt) and not isinstance(error, NewerFormat)
        hint = "\n--repair saves what is before." if can_help and not is_repaired else ""
        raise click.ClickException(f"{data_dir}: {error}{hint}") from None
    click.echo(json.dumps(facts) if as_json else _text(facts))
    if damaged:
        _fail(data_dir, facts["damaged"])


_IN_BUCKET = """\
the directory belongs to a bucket, which has all of it: remove the directory, and start from the
bucket; `headgate bucket verify` says whether that is whole"""


def _fail(data_dir: Path, damaged: list[dict[str, Any]]) -> NoReturn:
    entries = counted_entries(sum(each["entries"] for each in damaged))
    text = f"{counted(len(damaged), 'damaged chunk')} of {entries}"
    raise click.ClickException(f"{data_dir}: {text}\n--repair keeps all the rest.")


def _facts(
    disk: Disk, loaded: recovery.Loaded, repaired: Repaired, damaged: Iterable[Damaged]
) -> dict[str, Any]:
    names = recovery.names_in_use(disk)
    return {
        "put_aside": repaired.kept,
        "lost": _chunks(repaired.lost),
        "incomplete": {_shown(name): what for name, what in repaired.incomplete.items()},
        "files": [{"name": name, "size_bytes": disk.size_bytes(name)} for name in names],
        "extent_files": cold_files(disk, loaded.keyspace)._asdict(),
        "records": loaded.position,
        **loaded.counts()._asdict(),
        "torn": None if loaded.torn is None else loaded.torn._asdict(),
        "damaged": _chunks(damaged),
    }


def _chunks(damaged: Iterable[Damaged]) -> list[dict[str, Any]]:
    return [
        {
            "stream": _shown(extent.stream),
            "file": extents_name(extent.place.file),
            "offset": chunk.offset,
            "first_id": str(chunk.first_id),
            "last_id": str(chunk.last_id),
            "entries": chunk.live_count,
            "why": extent.why,
        }
        for extent in damaged
        for chunk in extent.lost
    ]


def _shown(name: bytes) -> str:
    return name.decode(errors="replace")


def _text(facts: dict[str, Any]) -> str:
    lines = [f"put aside into {name}" for name in facts["put_aside"]]
    lines += [f"lost: {_line(chunk)}" for chunk in facts["lost"]]
    lines += [
        f"stream {one_line(name)} is not complete: it lacks {what}"
        for name, what in facts["incomplete"].items()
    ]
    lines += [f"{file['name']}  {file['size_bytes']} bytes" for file in facts["files"]]
    if facts["extent_files"]["file_count"]:
        sizes = "{size_bytes} bytes, {live_bytes} live, {dead_bytes} dead"
        files = counted(facts["extent_files"]["file_count"], "extent file")
        lines.append(f"{files}: {sizes.format(**facts['extent_files'])}")
    lines.append(contents(*(facts[name] for name in ("records", *recovery.KeyspaceCounts._fields))))
    if facts["torn"] is not None:
        lines.append(
            "{name} is torn at byte {offset}: {why}. The {size_bytes} bytes behind were never "
            "promised to anybody; the next start puts them aside.".format(**facts["torn"])
        )
    lines += [f"damaged: {_line(chunk)}" for chunk in facts["damaged"]]
    return "\n".join(lines)


def _line(chunk: dict[str, Any]) -> str:
    shown = chunk | {"stream": one_line(chunk["stream"])}
    return (
        "{file}, byte {offset}: {count} of stream {stream}, {first_id} to {last_id}: {why}".format(
            count=counted_entries(chunk["entries"]), **shown
        )
    )
