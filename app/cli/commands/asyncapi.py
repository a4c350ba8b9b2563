"""`headgate asyncapi`."""

import json
import sys

import click

from headgate.app.cli.manual import epilog
from headgate.app.live import asyncapi


@click.command("asyncapi", epilog=epilog("headgate asyncapi > asyncapi.json", failed=""))
def command() -> None:
    """Print the AsyncAPI document: what is said over the WebSocket."""
    json.dump(asyncapi.document(), sys.stdout, indent=2, ensure_ascii=False)
    click.echo()
