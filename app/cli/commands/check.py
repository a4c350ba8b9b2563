import json
from collections.abc import Iterable, Iterator
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, get_origin

import annotated_types
import click
from pydantic.fields import FieldInfo

from headgate.app.cli.commands import serve
from headgate.app.cli.configuration import CONFIG, settings_from
from headgate.app.cli.data_dir import data_dir_option
from headgate.app.cli.declaration import command, option
from headgate.app.cli.listing import contents, counted, counted_entries
from headgate.app.cli.words import one_line
from headgate.app.runtime.logs import show_progress
from headgate.app.settings import Settings
from headgate.engine.bucket.manifest import read_marker
from headgate.engine.bucket.tiers import tiered
from headgate.engine.errors import Corrupt, NewerFormat, StreamError
from headgate.engine.journal import recovery
from headgate.engine.journal.damage import Repaired, cold_files, examine, repair
from headgate.engine.journal.disk import Disk, SystemDisk
from headgate.engine.journal.extents import read_or_lose
from headgate.engine.journal.names import extents_name
from headgate.engine.state.extent import Damaged

_progress = partial(show_progress, what="Reading cold entries,")


@command(
    "check",
    "headgate check --data-dir data",
    failed="the data is damaged and not repaired, or a gateway is using it",
)
def check_command(
    as_json: bool,
    data_dir: Path = data_dir_option("Data directory of the gateway.", exists=True),
    is_repaired: bool = option(
        "Move damaged data to separate files and keep the rest.", None, "--repair"
    ),
) -> None:
    """Check the journal and all entries of a data directory, and report its content.

    The command loads the directory as the gateway does at start, and reads all entries on disk.
    """
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
        hint = "\n--repair keeps the data before it." if can_help and not is_repaired else ""
        raise click.ClickException(f"{data_dir}: {error}{hint}") from None
    click.echo(json.dumps(facts) if as_json else _text(facts))
    if damaged:
        _fail(data_dir, facts["damaged"])


_IN_BUCKET = """\
the directory belongs to a bucket, which contains all of its data: remove the directory, and start
the gateway from the bucket; `headgate bucket verify` checks whether the bucket is intact"""


def _fail(data_dir: Path, damaged: list[dict[str, Any]]) -> NoReturn:
    entries = counted_entries(sum(each["entries"] for each in damaged))
    text = f"{counted(len(damaged), 'damaged chunk')} of {entries}"
    raise click.ClickException(f"{data_dir}: {text}\n--repair keeps all other data.")


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
    lines = [f"damaged data moved to {name}" for name in facts["put_aside"]]
    lines += [f"lost: {_line(chunk)}" for chunk in facts["lost"]]
    lines += [
        f"stream {one_line(name)} is incomplete: it lacks {what}"
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
            "{name} is torn at byte {offset}: {why}. The {size_bytes} bytes after it were never "
            "acknowledged; the next start moves them to a separate file.".format(**facts["torn"])
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


_PAGE = """\
# Settings

`headgate check-config --markdown` generates this page. A flag overrides an environment variable, a
variable overrides the TOML file, and the file overrides the default. Name the file with `--config`
or `HEADGATE_CONFIG`. In the file, the name of a setting is the name of its variable in lower case
and without `HEADGATE_`: `port = 9000`. A list is a TOML list: `allowed_hosts = ["gw.example"]`.

The gateway does not start with an invalid value, or with an unknown name in the file. It warns of
variables that begin with `HEADGATE_` and are not settings. Kubernetes adds such variables for a
service named `headgate`, and sets `HEADGATE_PORT` to a URL. To prevent that, set
`enableServiceLinks: false` in the pod.

| variable | flag | default | allowed | meaning |
|---|---|---|---|---|
"""


@command(
    "check-config", "headgate check-config --config headgate.toml", failed="a setting is wrong"
)
def check_config_command(
    as_json: bool,
    config: Path | None = CONFIG,
    markdown: bool = option("Print a table of all settings in Markdown instead."),
) -> None:
    """Validate and show the settings that `headgate serve` would use."""
    if markdown:
        click.echo(_PAGE + "\n".join(_rows()))
        return
    settings = settings_from(config, {}).model_dump(mode="json")
    if as_json:
        click.echo(json.dumps(settings, ensure_ascii=False))
        return
    lines = {
        f"{name} = {json.dumps(value)}": Settings.model_fields[name].description
        for name, value in settings.items()
    }
    for line, description in lines.items():
        click.echo(f"{line:<{max(map(len, lines))}}  # {description}")


def _rows() -> Iterator[str]:
    flags = {parameter.name: parameter.opts[0] for parameter in serve.serve_command.params}
    defaults = Settings.model_construct().model_dump(mode="json")
    for name, field in Settings.model_fields.items():
        default = defaults[name]
        cells = [
            f"`HEADGATE_{name.upper()}`",
            f"`{flags[name]}`" if name in flags else "",
            "" if default in (None, []) else f"`{default}`",
            _allowed(field),
            str(field.description),
        ]
        yield f"| {' | '.join(cells)} |"


def _allowed(field: FieldInfo) -> str:
    kind: Any = field.annotation
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return ", ".join(f"`{member.value}`" for member in kind)
    if get_origin(kind) is list:
        return "a list, separated by commas; you can repeat the flag"
    bounds: dict[type, Any] = {type(each): each for each in field.metadata}
    least, most = bounds.get(annotated_types.Ge), bounds.get(annotated_types.Le)
    if least is None:
        return ""
    return f"{least.ge} or more" if most is None else f"{least.ge} to {most.le}"
