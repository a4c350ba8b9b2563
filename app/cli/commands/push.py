from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from headgate.app.cli.declaration import argument, epilog, option
from headgate.app.cli.durations import SOME_DURATION, duration_text, time_text
from headgate.app.cli.flags import confirm, gateway_command
from headgate.app.cli.listing import show_deletion, show_item, show_items
from headgate.app.cli.words import fields_of, one_line
from headgate.client.blocking import Client
from headgate.client.blocking.classes import BlockingPush
from headgate.client.groups import NewGroups
from headgate.client.shapes.answers import (
    PushAttempt,
    PushBody,
    PushInfo,
    PushSignature,
    PushSummary,
)

_NOTHING = "There is no push yet: headgate push set orders billing https://hooks.example/orders"
_COLUMNS = ("stream", "group", "state", "since", "delivered", "failed", "url")
_ANSWERS = ("at", "status", "took_ms", "entries", "error", "webhook_id")
_WORST = ("unreadable", "disabled", "failing", "paused", "active")


MATCH = option("STREAM is a pattern, as orders.*: the group of that name in all that match.")


def push_of(
    gateway: Client, stream: str, group: str, *, match: bool, start: str | None = None
) -> BlockingPush:
    if match:
        create: NewGroups | None = None if start is None else {"start": start}
        return gateway.groups(group, match=stream, create=create).push
    if start is not None:
        raise click.UsageError("--start is for groups over a pattern: give --match")
    return gateway.group(stream, group).push


def _row(push: PushSummary) -> dict[str, object]:
    return {
        **push,
        "since": time_text(push["disabled_at_ms"] or push["failing_since_ms"]),
        "delivered": push["delivered_count"],
        "failed": push["failed_count"],
    }


def show_push(push: PushInfo, *, as_json: bool) -> None:
    if as_json:
        show_item(push, as_json=True)
        return
    facts = {
        "url": push["url"],
        "state": push["state"],
        "failing_since": time_text(push["failing_since_ms"]),
        "disabled_at": time_text(push["disabled_at_ms"]),
        "disabled_reason": push["disabled_reason"],
        "delivered": push["delivered_count"],
        "failed": push["failed_count"],
        "concurrency": push["concurrency"],
        "timeout": duration_text(push["timeout_ms"]),
        "body": push["body"],
        "batch_max": push["batch_max"],
        "signature": push["signature"],
        "headers": push["header_names"],
        "disable_after": duration_text(push["disable_after_ms"]),
        "previous_secret_until": time_text(push["previous_secret_until_ms"]),
        "created_at": time_text(push["created_at_ms"]),
    }
    show_item({name: fact for name, fact in facts.items() if fact is not None}, as_json=False)
    if push["answers"]:
        click.echo()
        show_items(push["answers"], _ANSWERS, as_json=False, told=_answer_row)


def show_secret(made: Mapping[str, Any], *, as_json: bool) -> None:
    name = f"the push of the group {one_line(made['group'])} of {one_line(made['stream'])}"
    if "secret" in made:
        text = f"This is the secret of {name}.\nGive it to the receiver: it is not shown again."
        click.echo(text, err=True)
    else:
        click.echo(f"This changes {name}, which keeps its secret.", err=True)
    if made.get("signature") == "v1a":
        click.echo("Requests are signed by the key at /v1/push/jwks.json instead.", err=True)
    if as_json:
        show_item(made, as_json=True)
    elif "secret" in made:
        click.echo(made["secret"])


def _answer_row(answer: PushAttempt) -> dict[str, object]:
    error = answer["error"]
    if error is not None and answer["excerpt"] is not None:
        error = f"{error}: {answer['excerpt']}"
    return {
        **answer,
        "at": time_text(answer["at_ms"]),
        "entries": answer["entry_count"],
        "error": error,
    }


@click.group("push", epilog=epilog("headgate push list"))
def push_command() -> None:
    """Let the gateway send the entries of a group to a URL."""


@gateway_command(
    "set",
    "headgate push set orders billing https://hooks.example/orders --concurrency 20",
    group=push_command,
)
def set_push(
    gateway: Client,
    stream: str,
    group: str,
    as_json: bool,
    receiver: str = argument(metavar="URL"),
    concurrency: int | None = option("Requests at a time, at most; 10.", click.IntRange(min=1)),
    timeout_ms: int | None = option(
        "Time for a request with its answer; 10s unless given.", SOME_DURATION
    ),
    body: PushBody | None = option(
        "What a request has: an entry unless given, several entries, or events of CloudEvents."
    ),
    batch_max: int | None = option(
        "Entries of a request that has several; 100.", click.IntRange(min=1)
    ),
    signature: PushSignature | None = option(
        "v1: by the secret that is printed. v1a: by a key of the gateway, whose public part is "
        "at /v1/push/jwks.json."
    ),
    headers: tuple[str, ...] = option(
        "A header of each request. May be repeated. NAME=@FILE takes the value from a file, as "
        "every user of the machine can read flags.",
        None,
        "--header",
        metavar="NAME=VALUE",
    ),
    disable_after_ms: int | None = option(
        "Behind nothing but failures for so long, the push is disabled; 5d unless given.",
        SOME_DURATION,
    ),
    match: bool = MATCH,
    start: str | None = option(
        "With --match: create the group where there is none; 0 reads all, $ what is new."
    ),
) -> None:
    """Create a push, or replace it, and print its secret if it is new. It is shown this once.

    A push that is replaced keeps its secret; what no flag says is as for a new one.

    With --match the gateway sends the entries of the group in all streams that match, those that
    are made later included.

        headgate push set 'orders.*' billing https://hooks.example/orders --match --start 0
    """
    made = push_of(gateway, stream, group, match=match, start=start).set(
        receiver,
        concurrency=concurrency,
        timeout_ms=timeout_ms,
        body=body,
        batch_max=batch_max,
        signature=signature,
        headers=_headers_of(headers),
        disable_after_ms=disable_after_ms,
    )
    show_secret(made, as_json=as_json)


@gateway_command("list", "headgate push list --json", group=push_command)
def list_pushes(gateway: Client, as_json: bool) -> None:
    """List the pushes, the worst first: those that are disabled, then those that fail.

    In a pipe: a header, then columns separated by tabs.
    """
    worst = sorted(
        gateway.pushes(), key=lambda push: (_WORST.index(push["state"]), -push["failure_count"])
    )
    show_items(worst, _COLUMNS, as_json=as_json, nothing=_NOTHING, told=_row)


@gateway_command("show", "headgate push show orders billing", group=push_command)
def show(gateway: Client, stream: str, group: str, as_json: bool, match: bool = MATCH) -> None:
    """Show a push, and the last answers of its receiver, the newest first.

    In a pipe: lines of names and values, an empty line, then a header and a line for each answer.
    """
    show_push(push_of(gateway, stream, group, match=match).info(), as_json=as_json)


@gateway_command("pause", "headgate push pause orders billing", group=push_command)
def pause(gateway: Client, stream: str, group: str, as_json: bool, match: bool = MATCH) -> None:
    """Send nothing until `resume`; requests on their way end."""
    show_push(push_of(gateway, stream, group, match=match).pause(), as_json=as_json)


@gateway_command("resume", "headgate push resume orders billing", group=push_command)
def resume(gateway: Client, stream: str, group: str, as_json: bool, match: bool = MATCH) -> None:
    """Go on after a pause, or after the push was disabled."""
    show_push(push_of(gateway, stream, group, match=match).resume(), as_json=as_json)


@gateway_command("retry", "headgate push retry orders billing", group=push_command)
def retry(gateway: Client, stream: str, group: str, as_json: bool, match: bool = MATCH) -> None:
    """Send failed entries at once that have to wait; 10,000 of them at most."""
    show_item({"entries": push_of(gateway, stream, group, match=match).retry()}, as_json=as_json)


@gateway_command("rotate", "headgate push rotate orders billing --overlap 1h", group=push_command)
def rotate(
    gateway: Client,
    stream: str,
    group: str,
    as_json: bool,
    overlap_ms: int | None = option(
        "Requests are signed with the old secret as well for so long; 1d unless given."
    ),
    match: bool = MATCH,
) -> None:
    """Make a new secret for a push, and print it. It is shown this once."""
    secret = push_of(gateway, stream, group, match=match).rotate(overlap_ms=overlap_ms)
    show_secret({"stream": stream, "group": group, "secret": secret}, as_json=as_json)


@gateway_command("delete", "headgate push delete orders billing --yes", group=push_command)
def delete(
    gateway: Client, stream: str, group: str, yes: bool, as_json: bool, match: bool = MATCH
) -> None:
    """Delete a push; its group stays, with what is pending. On a terminal it asks before."""
    confirm(f"Delete the push of the group {group!r} of {stream!r}?", yes=yes)
    push_of(gateway, stream, group, match=match).delete()
    show_deletion({"stream": stream, "group": group}, as_json=as_json)


def _headers_of(words: Sequence[str]) -> dict[str, str]:
    headers = dict[str, str]()
    for name, value in fields_of(words):
        assert isinstance(value, str)
        headers[name] = _text_of(value[1:]) if value.startswith("@") else value
    return headers


def _text_of(file: str) -> str:
    try:
        return Path(file).read_text().strip()
    except (OSError, ValueError) as error:
        raise click.UsageError(f"--header: {file}: {error}") from None
