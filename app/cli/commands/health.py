"""`headgate health`."""

import json

import click

from headgate.app.cli.durations import age_text
from headgate.app.cli.flags import json_option, open_gateway_options
from headgate.app.cli.manual import epilog
from headgate.client.blocking import Client
from headgate.client.shapes.answers import Readiness


@click.command(
    "health",
    epilog=epilog("headgate health --url localhost:8080", failed="not ready, or not reachable"),
)
@json_option
@open_gateway_options
def health_command(as_json: bool, gateway: Client) -> None:
    """Ask whether the gateway is ready, and whether its bucket has everything.

    A standby is not ready. With several URLs, it is the leader that answers.
    """
    readiness = gateway.readiness()
    if as_json:
        click.echo(json.dumps(readiness))
        return
    click.echo(readiness["status"])
    if "role" in readiness:
        click.echo(f"{readiness['role']} at {gateway.url}; the bucket {_bucket(readiness)}")


def _bucket(readiness: Readiness) -> str:
    if "unshipped_ms" not in readiness:
        return "has everything"
    size_bytes, ms = readiness.get("unshipped_bytes", 0), readiness["unshipped_ms"]
    return f"lacks {size_bytes} bytes, for {age_text(ms)}"
