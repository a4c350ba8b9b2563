import asyncio
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import click
from click.core import ParameterSource
from pydantic import SecretStr
from rich.table import Table
from rich.text import Text

from headgate.app.backends.redis.diagnosis import examine
from headgate.app.backends.redis.keys import KeyNames
from headgate.app.cli.commands.health import bucket_text
from headgate.app.cli.configuration import CONFIG, setting_flags, settings_from
from headgate.app.cli.declaration import command, option
from headgate.app.cli.flags import GatewayPlace, chosen_credential, gateway_flags
from headgate.app.cli.listing import screen
from headgate.app.cli.words import json_line, one_line
from headgate.app.diagnosis import Finding, Severity, examine_bucket
from headgate.app.gateway.servers import client_options
from headgate.app.settings import PREFIX, Settings
from headgate.client.blocking import Client
from headgate.client.problems import Forbidden, HeadgateError, NotLeader
from headgate.engine.bucket.bucket import RequestLimits
from headgate.engine.bucket.opening import open_bucket
from headgate.engine.clock import SystemClock

_STYLE_OF = {
    Severity.OK: "green",
    Severity.WARNING: "yellow",
    Severity.FAULT: "bold red",
    Severity.UNKNOWN: "dim",
}
_BY_FLAG = ParameterSource.COMMANDLINE

_REQUESTS = 10
_SHOWN_MAX = 3

_DURABLE = {
    "nothing": ("answers do not wait for a disk", "a failure can lose changes that were answered"),
    "everysec": ("the disk, every second", "a failure can lose the changes of the last second"),
    "disk": ("the disk, before each answer", ""),
    "replica": ("the disks of a primary and a replica, before each answer", ""),
    "bucket": ("the disk and the bucket, before each answer", ""),
}


@command(
    "doctor",
    failed="there is a fault",
    short_help="Examine a running gateway, its servers, or its bucket.",
    more=[
        *gateway_flags(),
        *setting_flags(
            *("backend", "redis_durability", "redis_prefix", "redis_username"),
            *("redis_tls_ca", "redis_tls_cert", "redis_tls_key"),
        ),
    ],
)
def doctor_command(
    as_json: bool,
    config: Path | None = CONFIG,
    bucket: str | None = option(
        "Examine this bucket: s3://NAME/PREFIX, gs://NAME/PREFIX, az://CONTAINER/PREFIX, or a "
        "directory as file:///DIRECTORY. Credentials come from the variables of the store.",
        click.STRING,
        metavar="URL",
        envvar=f"{PREFIX}BUCKET",
    ),
    *,
    url: str,
    ca: Path | None,
    token_file: Path | None,
    insecure: bool,
    **flags: Any,
) -> None:
    """Examine a running gateway, Redis or Valkey servers, or a bucket, and report faults.

    Without --backend and --bucket, the command examines the gateway at --url: whether it is ready,
    how durable its streams are, whether it accepts your token, and which pushes and schedules fail.

        headgate doctor
        headgate doctor --url https://gateway.example --token-file key
        headgate doctor --backend redis://localhost:6379
        headgate doctor --bucket s3://orders/gateway

    With --backend or --bucket, it examines what a gateway would use, before you start one. It
    changes nothing at the servers. Give their password as HEADGATE_REDIS_PASSWORD, because every
    user of the machine can read flags. It writes small objects below doctor/ in the bucket, and
    removes them at the end.

    To examine a data directory, use `headgate check`.
    """
    is_url_given = click.get_current_context().get_parameter_source("url") is _BY_FLAG
    if bucket is not None and flags["backend"] is None and not is_url_given:
        findings = _of_bucket(bucket)
    elif not is_url_given and (settings := settings_from(config, flags)).backend is not None:
        findings = _of_servers(settings, settings.backend)
    else:
        credential = chosen_credential(url, token_file, insecure=insecure)
        findings = list(_of_gateway(GatewayPlace(url, credential, ca=ca)))
    _show(findings, as_json=as_json)
    if any(finding.severity is Severity.FAULT for finding in findings):
        raise SystemExit(1)


def _of_gateway(place: GatewayPlace) -> Iterator[Finding]:
    with place.client() as gateway:
        try:
            readiness = gateway.readiness()
        except HeadgateError as error:
            is_standby = isinstance(error, NotLeader)
            severity = Severity.WARNING if is_standby else Severity.FAULT
            yield Finding("gateway", severity, place.text_of(error))
            return
        yield Finding("gateway", Severity.OK, f"{gateway.url} is ready")
        text, follows = _DURABLE[readiness["durable"]]
        yield Finding("durability", Severity.WARNING if follows else Severity.OK, text, follows)
        if "role" in readiness:
            severity = Severity.WARNING if "unshipped_ms" in readiness else Severity.OK
            yield Finding("bucket", severity, f"the bucket {bucket_text(readiness)}")
        for text in readiness.get("warnings", []):
            yield Finding("warning", Severity.WARNING, text)
        yield _time_of(gateway.readiness)
        for about, act in (("token", _token), ("pushes", _pushes), ("schedules", _schedules)):
            try:
                yield act(gateway)
            except Forbidden as error:
                yield Finding(about, Severity.UNKNOWN, place.text_of(error))
            except HeadgateError as error:
                yield Finding(about, Severity.FAULT, place.text_of(error))
                return


def _time_of(request: Callable[[], object]) -> Finding:
    times_ms = []
    for _ in range(_REQUESTS):
        began = time.perf_counter()
        request()
        times_ms.append((time.perf_counter() - began) * 1_000)
    return Finding("time of a request", Severity.OK, f"{median(times_ms):.1f} ms")


def _token(gateway: Client) -> Finding:
    next(iter(gateway.streams(limit=1)), None)
    return Finding("token", Severity.OK, "the gateway accepts your requests")


def _pushes(gateway: Client) -> Finding:
    pushes = list(gateway.pushes())
    failing = [
        f"{push['group']} of {push['stream']} is {push['state']}"
        for push in pushes
        if push["state"] not in ("active", "paused")
    ]
    return _counted("pushes", len(pushes), failing, "see `headgate push list`")


def _schedules(gateway: Client) -> Finding:
    schedules = list(gateway.schedules())
    failing = [
        f"{each['name']}: {each['problem']['detail']}"
        for each in schedules
        if each["problem"] is not None
    ]
    return _counted("schedules", len(schedules), failing, "see `headgate schedule list`")


def _counted(about: str, count: int, failing: Sequence[str], follows: str) -> Finding:
    if not failing:
        return Finding(about, Severity.OK, f"{count:,}, none fails")
    shown = "; ".join(failing[:_SHOWN_MAX])
    more = "; …" if len(failing) > _SHOWN_MAX else ""
    text = f"{len(failing):,} of {count:,} fail: {shown}{more}"
    return Finding(about, Severity.WARNING, text, follows)


def _of_bucket(url: str) -> list[Finding]:
    try:
        bucket = open_bucket(url, RequestLimits(request_s=10))
    except ValueError as error:
        raise click.ClickException(f"--bucket {error}") from None
    findings = examine_bucket(bucket, secrets.token_hex(8), time.perf_counter)
    bucket.close()
    return findings


def _of_servers(settings: Settings, backend: SecretStr) -> list[Finding]:
    options = client_options(settings, backend)
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
    table.add_column("finding")
    table.add_column("consequence")
    for finding in findings:
        about, severity, *texts = _cells(finding)
        style = _STYLE_OF[finding.severity]
        table.add_row(Text(about, style="bold"), Text(severity, style=style), *map(Text, texts))
    return table
