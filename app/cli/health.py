"""`headgate health`."""

import json

import click

from headgate.app.cli.flags import json_option, open_gateway_options
from headgate.client.blocking import Client


@click.command("health", epilog="Example: headgate health --url localhost:8080")
@json_option
@open_gateway_options
def command(as_json: bool, gateway: Client) -> None:
    """Ask whether the gateway is ready; ends with 1 if it is not."""
    status = gateway.ready()
    click.echo(json.dumps({"status": status}) if as_json else status)
