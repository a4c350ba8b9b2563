import json

import click

from headgate.app.cli.flags import gateway_command
from headgate.app.wire.times import age_text
from headgate.client.blocking import Client
from headgate.client.shapes.answers import Readiness


@gateway_command(
    "health",
    "headgate health --url localhost:8080",
    failed="the gateway is not ready or not reachable",
    is_open=True,
)
def health_command(gateway: Client, as_json: bool) -> None:
    """Check whether the gateway is ready, and whether its bucket is up to date.

    A standby is not ready. With several URLs, the leader answers.
    """
    readiness = gateway.readiness()
    if as_json:
        click.echo(json.dumps(readiness))
        return
    click.echo(readiness["status"])
    if "role" in readiness:
        click.echo(f"{readiness['role']} at {gateway.url}; the bucket {bucket_text(readiness)}")


def bucket_text(readiness: Readiness) -> str:
    if "unshipped_ms" not in readiness:
        return "is up to date"
    size_bytes, ms = readiness.get("unshipped_bytes", 0), readiness["unshipped_ms"]
    return f"is {size_bytes} bytes and {age_text(ms)} behind"
