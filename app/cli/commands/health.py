"""`headgate health`."""

import json

import click

from headgate.app.cli.flags import json_option, open_gateway_options
from headgate.app.cli.manual import epilog
from headgate.client.blocking import Client


@click.command(
    "health",
    epilog=epilog("headgate health --url localhost:8080", failed="not ready, or not reachable"),
)
@json_option
@open_gateway_options
def command(as_json: bool, gateway: Client) -> None:
    """Ask whether the gateway is ready."""
    status = gateway.ready()
    click.echo(json.dumps({"status": status}) if as_json else status)
