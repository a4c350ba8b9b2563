import json

import click

from headgate.app.cli.durations import age_text
from headgate.app.cli.flags import gateway_command
from headgate.client.blocking import Client
from headgate.client.shapes.answers import Readiness


@gateway_command(
    "health",
    "headgate health --url localhost:8080",
    failed="not ready, or not reachable",
    is_open=True,
)
def health_command(gateway: Client, as_json: bool) -> None:
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
