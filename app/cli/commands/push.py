"""`headgate push`."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import click

from headgate.app.cli.durations import Duration, duration_text, time_text
from headgate.app.cli.flags import (
    Utf8,
    confirm,
    gateway_options,
    group_argument,
    json_option,
    stream_argument,
    yes_option,
)
from headgate.app.cli.manual import epilog
from headgate.app.cli.output.listing import show_deletion, show_item, show_items
from headgate.app.cli.words import fields_of, one_line
from headgate.client.blocking import Client
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


def show_pushes(pushes: Iterable[PushSummary], *, as_json: bool) -> None:
    """Show pushes, the worst first."""
    worst = sorted(pushes, key=lambda push: (_WORST.index(push["state"]), -push["failure_count"]))
    if as_json:
        show_items(worst, (), as_json=True)
        return
    rows = [
        {
            **push,
            "since": time_text(push["disabled_at_ms"] or push["failing_since_ms"]),
            "delivered": push["delivered_count"],
            "failed": push["failed_count"],
        }
        for push in worst
    ]
    show_items(rows, _COLUMNS, as_json=False, nothing=_NOTHING)


def show_push(push: PushInfo, *, as_json: bool) -> None:
    """Show a push, and the answers of its receiver."""
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
        show_items(map(_row, push["answers"]), _ANSWERS, as_json=False)


def show_secret(made: Mapping[str, Any], *, as_json: bool) -> None:
    """Show the secret of a push, if it is new; alone, or with all that was answered as JSON."""
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


def _row(answer: PushAttempt) -> dict[str, object]:
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


@push_command.command(
    "set",
    epilog=epilog("headgate push set orders billing https://hooks.example/orders --concurrency 20"),
)
@stream_argument
@group_argument
@click.argument("receiver", type=Utf8(), metavar="URL")
@click.option("--concurrency", type=click.IntRange(min=1), help="Requests at a time, at most; 10.")
@click.option(
    "--timeout",
    type=Duration(shortest_ms=1),
    help="Time for a request with its answer; 10s unless given.",
)
@click.option(
    "--body",
    type=click.Choice(get_args(PushBody)),
    help="What a request has: an entry unless given, several entries, or events of CloudEvents.",
)
@click.option(
    "--batch-max", type=click.IntRange(min=1), help="Entries of a request that has several; 100."
)
@click.option(
    "--signature",
    type=click.Choice(get_args(PushSignature)),
    help="v1: by the secret that is printed. v1a: by a key of the gateway, whose public part is "
    "at /v1/push/jwks.json.",
)
@click.option(
    "--header",
    "headers",
    multiple=True,
    type=Utf8(),
    metavar="NAME=VALUE",
    help="A header of each request. May be repeated. NAME=@FILE takes the value from a file, as "
    "every user of the machine can read flags.",
)
@click.option(
    "--disable-after",
    type=Duration(shortest_ms=1),
    help="Behind nothing but failures for so long, the push is disabled; 5d unless given.",
)
@json_option
@gateway_options
def set_push(
    stream: str,
    group: str,
    receiver: str,
    concurrency: int | None,
    timeout: int | None,
    body: PushBody | None,
    batch_max: int | None,
    signature: PushSignature | None,
    headers: tuple[str, ...],
    disable_after: int | None,
    as_json: bool,
    gateway: Client,
) -> None:
    """Create a push, or replace it, and print its secret if it is new. It is shown this once.

    A push that is replaced keeps its secret; what no flag says is as for a new one.
    """
    made = gateway.group(stream, group).push.set(
        receiver,
        concurrency=concurrency,
        timeout_ms=timeout,
        body=body,
        batch_max=batch_max,
        signature=signature,
        headers=_headers_of(headers),
        disable_after_ms=disable_after,
    )
    show_secret(made, as_json=as_json)


@push_command.command("list", epilog=epilog("headgate push list --json"))
@json_option
@gateway_options
def list_pushes(as_json: bool, gateway: Client) -> None:
    """List the pushes, the worst first: those that are disabled, then those that fail.

    In a pipe: a header, then columns separated by tabs.
    """
    show_pushes(gateway.pushes(), as_json=as_json)


@push_command.command("show", epilog=epilog("headgate push show orders billing"))
@stream_argument
@group_argument
@json_option
@gateway_options
def show(stream: str, group: str, as_json: bool, gateway: Client) -> None:
    """Show a push, and the last answers of its receiver, the newest first.

    In a pipe: lines of names and values, an empty line, then a header and a line for each answer.
    """
    show_push(gateway.group(stream, group).push.info(), as_json=as_json)


@push_command.command("pause", epilog=epilog("headgate push pause orders billing"))
@stream_argument
@group_argument
@json_option
@gateway_options
def pause(stream: str, group: str, as_json: bool, gateway: Client) -> None:
    """Send nothing until `resume`; requests on their way end."""
    show_push(gateway.group(stream, group).push.pause(), as_json=as_json)


@push_command.command("resume", epilog=epilog("headgate push resume orders billing"))
@stream_argument
@group_argument
@json_option
@gateway_options
def resume(stream: str, group: str, as_json: bool, gateway: Client) -> None:
    """Go on after a pause, or after the push was disabled."""
    show_push(gateway.group(stream, group).push.resume(), as_json=as_json)


@push_command.command("retry", epilog=epilog("headgate push retry orders billing"))
@stream_argument
@group_argument
@json_option
@gateway_options
def retry(stream: str, group: str, as_json: bool, gateway: Client) -> None:
    """Send failed entries at once that have to wait; 10,000 of them at most."""
    show_item({"entries": gateway.group(stream, group).push.retry()}, as_json=as_json)


@push_command.command("rotate", epilog=epilog("headgate push rotate orders billing --overlap 1h"))
@stream_argument
@group_argument
@click.option(
    "--overlap",
    type=Duration(),
    help="Requests are signed with the old secret as well for so long; 1d unless given.",
)
@json_option
@gateway_options
def rotate(stream: str, group: str, overlap: int | None, as_json: bool, gateway: Client) -> None:
    """Make a new secret for a push, and print it. It is shown this once."""
    secret = gateway.group(stream, group).push.rotate(overlap_ms=overlap)
    show_secret({"stream": stream, "group": group, "secret": secret}, as_json=as_json)


@push_command.command("delete", epilog=epilog("headgate push delete orders billing --yes"))
@stream_argument
@group_argument
@yes_option
@json_option
@gateway_options
def delete(stream: str, group: str, yes: bool, as_json: bool, gateway: Client) -> None:
    """Delete a push; its group stays, with what is pending. On a terminal it asks before."""
    confirm(f"Delete the push of the group {group!r} of {stream!r}?", yes=yes)
    gateway.group(stream, group).push.delete()
    show_deletion({"stream": stream, "group": group}, as_json=as_json)


def _headers_of(words: Sequence[str]) -> dict[str, str]:
    """Return the headers of NAME=VALUE and NAME=@FILE words."""
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
