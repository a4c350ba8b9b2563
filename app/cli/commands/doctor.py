import asyncio
import secrets
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from headgate.app.backends.redis.diagnosis import examine
from headgate.app.backends.redis.keys import KeyNames
from headgate.app.cli.configuration import CONFIG, setting_flags, settings_from
from headgate.app.cli.declaration import command, option
from headgate.app.cli.listing import screen
from headgate.app.cli.words import json_line, one_line
from headgate.app.diagnosis import Finding, Severity, examine_bucket
from headgate.app.gateway.servers import client_options
from headgate.app.settings import PREFIX
from headgate.engine.bucket.bucket import RequestLimits
from headgate.engine.bucket.opening import open_bucket
from headgate.engine.clock import SystemClock

_STYLE_OF = {
    Severity.OK: "green",
    Severity.WARNING: "yellow",
    Severity.FAULT: "bold red",
    Severity.UNKNOWN: "dim",
}


@command(
    "doctor",
    "headgate doctor --backend redis://localhost:6379\n"
    "  headgate doctor --bucket s3://orders/gateway",
    failed="a gateway would not work with these servers, or with this bucket",
    short_help="Say what Redis or Valkey servers, or a bucket, have and lack.",
    more=setting_flags(
        *("backend", "redis_durability", "redis_prefix", "redis_username"),
        *("redis_tls_ca", "redis_tls_cert", "redis_tls_key"),
    ),
)
def doctor_command(
    as_json: bool,
    config: Path | None = CONFIG,
    bucket: str | None = option(
        "An object store: s3://NAME/PREFIX, gs://NAME/PREFIX, az://CONTAINER/PREFIX, or a"
        " directory as file:///DIRECTORY. The variables of the store say how it is reached.",
        click.STRING,
        metavar="URL",
        envvar=f"{PREFIX}BUCKET",
    ),
    **flags: Any,
) -> None:
    """Examine Redis or Valkey servers, or a bucket: abilities, faults, and effects on a gateway.

    Nothing is changed at the servers. Give the password as HEADGATE_REDIS_PASSWORD: every user of
    the machine can read flags.

    A bucket gets some small objects below doctor/, which are removed at the end.
    """
    if bucket is not None and flags["backend"] is None:
        findings = _of_bucket(bucket)
    else:
        findings = _of_servers(config, flags)
    _show(findings, as_json=as_json)
    if any(finding.severity is Severity.FAULT for finding in findings):
        raise SystemExit(1)


def _of_bucket(url: str) -> list[Finding]:
    try:
        bucket = open_bucket(url, RequestLimits(request_s=10))
    except ValueError as error:
        raise click.ClickException(f"--bucket {error}") from None
    findings = examine_bucket(bucket, secrets.token_hex(8), time.perf_counter)
    bucket.close()
    return findings


def _of_servers(config: Path | None, flags: Mapping[str, Any]) -> list[Finding]:
    settings = settings_from(config, flags)
    if settings.backend is None:
        raise click.UsageError("which servers, or which bucket? --backend or --bucket says it")
    options = client_options(settings, settings.backend)
    return asyncio.run(
        examine(
            options.servers,
            KeyNames(options.prefix),
            options.durability,
            SystemClock().wall_ms,
            options.connect_ms_max / 1000,
        )
    )


def _show(findings: list[Finding], *, as_json: bool) -> None:
    console = screen()
    if as_json:
        for finding in findings:
            click.echo(json_line(finding._asdict()))
    elif console is None:
        for finding in findings:
            click.echo("\t".join(_cells(finding)))
    else:
        console.print(_table(findings))


def _cells(finding: Finding) -> list[str]:
    text = finding.text
    if finding.servers:
        text = f"{', '.join(finding.servers)}: {text}"
    return [one_line(cell) for cell in (finding.about, finding.severity, text, finding.follows)]


def _table(findings: list[Finding]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("about", no_wrap=True)
    table.add_column("state", no_wrap=True)
    table.add_column("what is there")
    table.add_column("what follows")
    for finding in findings:
        about, severity, *texts = _cells(finding)
        style = _STYLE_OF[finding.severity]
        table.add_row(Text(about, style="bold"), Text(severity, style=style), *map(Text, texts))
    return table
