"""The command line: `headgate serve | check-config | openapi`."""

import json
import sys
from pathlib import Path
from typing import Any

import click
from pydantic import ValidationError

from app.main import create_app
from app.server import Server
from app.settings import FsyncPolicy, LogLevel, Settings, read_settings
from app.telemetry import set_up_logging

_CONFIG = click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    envvar="HEADGATE_CONFIG",
    help="A TOML file with settings; variables and flags win over it.",
)


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
    help="Where the journal is kept.  [default: data]",
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
    Server(create_app(settings), settings, on_listening=_greet).run()


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
def openapi() -> None:
    """Print the OpenAPI document."""
    json.dump(create_app(Settings()).openapi(), sys.stdout, indent=2, ensure_ascii=False)
    click.echo()


def _settings(config: Path | None, flags: dict[str, Any]) -> Settings:
    given = {name: value for name, value in flags.items() if value not in (None, ())}
    try:
        return read_settings(config, given)
    except ValidationError as error:
        lines = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
        raise click.ClickException("\n       ".join(lines)) from None


def _greet(url: str) -> None:
    click.echo(
        f"Headgate is at {url}, its documentation at {url}/docs. Ctrl-C stops it.\n"
        "Nothing is kept: this version holds streams in memory only, and --data-dir and --fsync "
        "have no effect yet.",
        err=True,
    )


if __name__ == "__main__":
    main()
