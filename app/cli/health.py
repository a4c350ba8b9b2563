"""`headgate health`."""

import click

from headgate.app.cli.remote import Remote, url_option


@click.command("health")
@url_option
def command(url: str) -> None:
    """Ask whether the gateway is ready; ends with 1 if it is not."""
    with Remote(url) as gateway:
        click.echo(gateway.get("readyz")["status"])
