"""The command line: `headgate serve | check | check-config | openapi`."""

import gc
import json
import sys
from pathlib import Path
from typing import Any

import click
from pydantic import ValidationError

from app import asyncapi
from app.main import create_app, open_engine
from app.server import Server
from app.settings import MEMORY, LogLevel, Settings, read_settings
from app.telemetry import set_up_logging
from engine import recovery
from engine.disk import SystemDisk
from engine.errors import Corrupt, NewerFormat, StreamError
from engine.journal import FsyncPolicy

_CONFIG = click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    envvar="HEADGATE_CONFIG",
    help="A TOML file with settings; variables and flags win over it.",
)


_GC_THRESHOLDS = (50_000, 20, 100)
"""Measured (tests/bench/README.md): appends a fifth faster, and claims among a million pending
entries stall for 1 ms instead of 26."""

_LARGE_BYTES = 8 * 2**20
"""A journal smaller than this is loaded before anybody could read about it."""


# \b keeps click from filling the paragraph.
_HELP = """\
Headgate: a streaming gateway. Redis Streams over HTTP, SSE and WebSocket.

\b
Start it:          headgate serve
Append an entry:   curl localhost:8080/v1/streams/orders/entries \\
                     -H 'content-type: application/json' -d '{"fields":{"sku":"42"}}'
Read the stream:   curl localhost:8080/v1/streams/orders/entries
Everything else:   http://localhost:8080/docs
"""


@click.group(
    help=_HELP, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(package_name="headgate")
def main() -> None:
    """Run the command line."""


@main.command()
@_CONFIG
@click.option("--host", help="Address to listen on.  [default: 127.0.0.1]")
@click.option("--port", type=int, help="Port to listen on; 0 takes a free one.  [default: 8080]")
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the journal is kept; :memory: keeps nothing.  [default: data]",
)
@click.option(
    "--fsync",
    type=click.Choice([policy.value for policy in FsyncPolicy]),
    help="When the journal is forced to disk: before each answer, every second, or when the "
    "system likes.  [default: always]",
)
@click.option(
    "--log-level",
    type=click.Choice([level.value for level in LogLevel]),
    help="How much the log says.  [default: info]",
)
@click.option(
    "--allow-host",
    "allowed_hosts",
    multiple=True,
    metavar="NAME",
    help="A host name to answer to besides the loopback ones; * is any. May be repeated.",
)
@click.option(
    "--allow-origin",
    "allowed_origins",
    multiple=True,
    metavar="ORIGIN",
    help="An origin whose pages may call, such as https://app.example. May be repeated.",
)
def serve(config: Path | None, **flags: Any) -> None:
    """Run the gateway until it is told to stop.

    Every setting can also be given as a variable (HEADGATE_PORT=9000) or in a TOML file
    (port = 9000); headgate check-config shows them all.
    """
    settings = _settings(config, flags)
    set_up_logging(settings.log_level)
    gc.disable()  # nothing of what is loaded is garbage
    try:
        engine = open_engine(settings, _show_progress)
    except (StreamError, OSError) as error:
        raise click.ClickException(f"{settings.data_dir}: {error}") from None

    gc.freeze()  # nor will it be: what is collected from now on is what requests leave
    gc.set_threshold(*_GC_THRESHOLDS)
    gc.enable()

    def greet(url: str) -> None:
        click.echo(
            f"Headgate is at {url}, its documentation at {url}/docs. Ctrl-C stops it.", err=True
        )
        if settings.data_dir == MEMORY:
            click.echo("Nothing is kept: streams live in memory only.", err=True)

    Server(create_app(settings, engine), settings, on_listening=greet).run()


@main.command("check-config")
@_CONFIG
def check_config(config: Path | None) -> None:
    """Show the settings that `serve` would use, or say what is wrong with them."""
    settings = _settings(config, {})
    lines = {
        f"{name} = {json.dumps(value)}": Settings.model_fields[name].description
        for name, value in settings.model_dump(mode="json").items()
    }
    for line, description in lines.items():
        click.echo(f"{line:<{max(map(len, lines))}}  # {description}")


@main.command()
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
def check(data_dir: Path, repair: bool) -> None:
    """Read a data directory as a start would, and say what is there.

    Ends with 1 if it is damaged and was not repaired.
    """
    try:
        disk = SystemDisk(data_dir)
        kept = recovery.repair(disk) if repair else []
        loaded = recovery.load(disk, progress=_show_progress)
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


@main.command()
def openapi() -> None:
    """Print the OpenAPI document."""
    json.dump(
        create_app(Settings(data_dir=MEMORY)).openapi(), sys.stdout, indent=2, ensure_ascii=False
    )
    click.echo()


@main.command("asyncapi")
def asyncapi_() -> None:
    """Print the AsyncAPI document: what is said over the WebSocket."""
    json.dump(asyncapi.document(), sys.stdout, indent=2, ensure_ascii=False)
    click.echo()


def _settings(config: Path | None, flags: dict[str, Any]) -> Settings:
    given = {name: value for name, value in flags.items() if value not in (None, ())}
    try:
        return read_settings(config, given)
    except ValidationError as error:
        lines = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
        raise click.ClickException("\n       ".join(lines)) from None


def _show_progress(done: int, total: int) -> None:
    """Say on standard error how far the loading is; files that load at once are not worth it."""
    if total < _LARGE_BYTES:
        return
    end = "\n" if done == total else ""
    percentage = done * 100 // total
    click.echo(f"\rLoading {total / 2**20:.0f} MiB: {percentage} %{end}", nl=False, err=True)


if __name__ == "__main__":
    main()
