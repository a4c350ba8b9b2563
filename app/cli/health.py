"""`headgate health`."""

import click

from headgate.app.cli.flags import open_gateway_options
from headgate.client.blocking import Client


@click.command("health")
@open_gateway_options
def command(gateway: Client) -> None:
    """Ask whether the gateway is ready; ends with 1 if it is not."""
    click.echo(gateway.ready())
