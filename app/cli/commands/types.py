from typing import Literal

import click

from headgate.app.cli.declaration import argument, option
from headgate.app.cli.flags import gateway_command
from headgate.app.entry_schemas.types import types_of
from headgate.client.blocking import Client


@gateway_command("types", "headgate types orders > orders.ts")
def types_command(
    gateway: Client,
    streams: tuple[str, ...] = argument(click.STRING, metavar="STREAM…"),
    language: Literal["typescript", "python"] = option(
        "The language.", default="typescript", show_default=True
    ),
) -> None:
    """Print types of the entries of streams, from their schemas."""
    schemas = {}
    for stream in streams:
        schema = gateway.stream(stream).schema()
        if schema is None:
            raise click.ClickException(f"Stream {stream!r} has no schema.")
        schemas[stream] = schema
    click.echo(types_of(schemas, language), nl=False)
