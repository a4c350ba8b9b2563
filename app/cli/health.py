"""`headgate health`."""

import click

from headgate.app.cli.flags import open_gateway_options
from headgate.app.cli.remote import Remote


@click.command("health")
@open_gateway_options
def command(gateway: Remote) -> None:
    """Ask whether the gateway is ready; ends with 1 if it is not."""
    click.echo(gateway.get("readyz")["status"])
