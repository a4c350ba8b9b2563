from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import click

from headgate.app.cli.declaration import argument, epilog, option
from headgate.app.cli.durations import PLACE, SOME_DURATION, duration_text, time_text
from headgate.app.cli.flags import FILTER, confirm, gateway_command
from headgate.app.cli.listing import show_deletion, show_item, show_items
from headgate.app.cli.words import fields_of, one_line
from headgate.client.blocking import Client
from headgate.client.blocking.classes import BlockingPush
from headgate.client.groups import MissingGroups
from headgate.client.shapes.answers import (
    PushAttempt,
    PushBody,
    PushInfo,
    PushReplay,
    PushSignature,
    PushSummary,
)

_NOTHING = "No pushes. Create one: headgate push set orders billing https://hooks.example/orders"
_COLUMNS = ("stream", "group", "state", "since", "delivered", "failed", "url")
_ANSWERS = ("at", "status", "took_ms", "entries", "error", "webhook_id")
_ATTEMPTS = ("at", "status", "took_ms", "id", "error", "next")
_WORST = ("unreadable", "disabled", "failing", "paused", "active")


MATCH = option("STREAM is a pattern, such as orders.*: use the group in all matching streams.")


def push_of(
    gateway: Client, stream: str, group: str, *, match: bool, start: str | None = None
) -> BlockingPush:
    if match:
        create: MissingGroups | None = None if start is None else {"start": start}
        return gateway.groups(group, match=stream, create=create).push
    if start is not None:
        raise click.UsageError("--start requires --match.")
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
        "attempts_days": push["attempts_days"],
        "previous_secret_until": time_text(push["previous_secret_until_ms"]),
        "created_at": time_text(push["created_at_ms"]),
    }
    show_item({name: fact for name, fact in facts.items() if fact is not None}, as_json=False)
    if push["replay"] is not None:
        click.echo()
        show_item(_replay_facts(push["replay"]), as_json=False)
    if push["answers"]:
        click.echo()
        show_items(push["answers"], _ANSWERS, as_json=False, told=_answer_row)


def show_secret(made: Mapping[str, Any], *, as_json: bool) -> None:
    name = f"the push of the group {one_line(made['group'])} of {one_line(made['stream'])}"
    if "secret" in made:
        text = f"This is the secret of {name}.\nGive it to the receiver: it is not shown again."
        click.echo(text, err=True)
    else:
        click.echo(f"Replaced {name}. It keeps its secret.", err=True)
    if made.get("signature") == "v1a":
        click.echo("Requests are signed with the key at /v1/push/jwks.json instead.", err=True)
    if as_json:
        show_item(made, as_json=True)
    elif "secret" in made:
        click.echo(made["secret"])


def _attempt_row(attempt: PushAttempt) -> dict[str, object]:
    return {
        **_answer_row(attempt),
        "id": " ".join(attempt["ids"]),
        "next": time_text(attempt["next_at_ms"]),
    }


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
    """Send the entries of a group to a URL (webhooks)."""


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
    concurrency: int | None = option(
        "Maximum number of concurrent requests. Default: 10.", click.IntRange(min=1)
    ),
    timeout_ms: int | None = option(
        "Timeout of a request, including its answer. Default: 10s.", SOME_DURATION
    ),
    body: PushBody | None = option(
        "Content of a request: one entry, several entries, or CloudEvents. Default: entry."
    ),
    batch_max: int | None = option(
        "Maximum number of entries in a request with several. Default: 100.", click.IntRange(min=1)
    ),
    signature: PushSignature | None = option(
        "v1: sign with the secret that is printed. v1a: sign with a key of the gateway, whose "
        "public part is at /v1/push/jwks.json."
    ),
    headers: tuple[str, ...] = option(
        "Header of each request. May be repeated. NAME=@FILE reads the value from a file, because "
        "every user of the machine can read flags.",
        None,
        "--header",
        metavar="NAME=VALUE",
    ),
    disable_after_ms: int | None = option(
        "Disable the push if all requests fail for this long. Default: 5d.", SOME_DURATION
    ),
    attempts_days: int | None = option(
        "Days that attempts are kept, up to 30. 0 keeps none. Default: 3.", click.IntRange(0, 30)
    ),
    match: bool = MATCH,
    start: str | None = option(
        "With --match: create missing groups. 0 reads all entries, $ only new ones."
    ),
) -> None:
    """Create or replace a push. The secret of a new push is printed, only once.

    A replaced push keeps its secret. Everything else that no flag sets gets its default.

    With --match, the gateway sends the entries of the group in all matching streams, including
    streams created later.

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
        attempts_days=attempts_days,
    )
    show_secret(made, as_json=as_json)


@gateway_command("list", "headgate push list --json", group=push_command)
def list_pushes(gateway: Client, as_json: bool) -> None:
    """List the pushes, worst first: disabled pushes, then failing ones.

    In a pipe: a header, then columns separated by tabs.
    """
    worst = sorted(
        gateway.pushes(), key=lambda push: (_WORST.index(push["state"]), -push["failure_count"])
    )
    show_items(worst, _COLUMNS, as_json=as_json, nothing=_NOTHING, told=_row)


@gateway_command("show", "headgate push show orders billing", group=push_command)
def show(gateway: Client, stream: str, group: str, as_json: bool, match: bool = MATCH) -> None:
    """Show a push and the last answers of its receiver, newest first.

    In a pipe: lines of names and values, an empty line, then a header and a line for each answer.
    """
    show_push(push_of(gateway, stream, group, match=match).info(), as_json=as_json)


@gateway_command("pause", "headgate push pause orders billing", group=push_command)
def pause(gateway: Client, stream: str, group: str, as_json: bool, match: bool = MATCH) -> None:
    """Pause a push until `resume`. Requests in flight are completed."""
    show_push(push_of(gateway, stream, group, match=match).pause(), as_json=as_json)


@gateway_command("resume", "headgate push resume orders billing", group=push_command)
def resume(gateway: Client, stream: str, group: str, as_json: bool, match: bool = MATCH) -> None:
    """Resume a push that is paused or disabled."""
    show_push(push_of(gateway, stream, group, match=match).resume(), as_json=as_json)


@gateway_command("retry", "headgate push retry orders billing", group=push_command)
def retry(gateway: Client, stream: str, group: str, as_json: bool, match: bool = MATCH) -> None:
    """Retry failed entries now instead of after their delays.

    One command retries at most 10,000 entries.
    """
    show_item({"entries": push_of(gateway, stream, group, match=match).retry()}, as_json=as_json)


@gateway_command("test", "headgate push test orders billing", group=push_command)
def send_test(gateway: Client, stream: str, group: str, as_json: bool, match: bool = MATCH) -> None:
    """Send a test event to the URL of a push now, and show the result.

    No entry is sent or acknowledged. The request has the header `headgate-test: true`. If the
    receiver does not answer 2xx, the command fails.
    """
    attempt = push_of(gateway, stream, group, match=match).test()
    if as_json:
        show_item(attempt, as_json=True)
    else:
        facts = {"status": attempt["status"], "took": duration_text(attempt["took_ms"])}
        facts |= {name: attempt[name] for name in ("error", "excerpt", "webhook_id")}
        show_item({name: fact for name, fact in facts.items() if fact is not None}, as_json=False)
    if attempt["error"] is not None:
        raise SystemExit(1)


@gateway_command(
    "attempts", "headgate push attempts orders billing --id 1718000000000-0", group=push_command
)
def list_attempts(
    gateway: Client,
    stream: str,
    group: str,
    as_json: bool,
    entry_id: str | None = option("Show only the attempts of this entry.", None, "--id"),
    limit: int = option("Maximum number of attempts.", click.IntRange(min=1), default=50),
    match: bool = MATCH,
) -> None:
    """List the attempts of a push, newest first.

    The gateway keeps them for 3 days, unless the push has another `--attempts-days`. --json shows
    everything about each attempt.
    """
    attempts = push_of(gateway, stream, group, match=match).attempts(entry_id)
    shown = list(islice(attempts, limit))
    show_items(shown, _ATTEMPTS, as_json=as_json, nothing="No attempts.", told=_attempt_row)


@gateway_command(
    "replay",
    "headgate push replay orders billing --from 2026-11-01T00:00 --dry-run",
    group=push_command,
)
def replay(
    gateway: Client,
    stream: str,
    group: str,
    as_json: bool,
    start: str | None = option(
        "First entry: an id, a time, or a duration such as 2h.", PLACE, "--from"
    ),
    end: str | None = option(
        "Last entry. Default: the last entry that was delivered.", PLACE, "--to"
    ),
    filter: Any = FILTER,  # noqa: A002
    dry_run: bool = option("Only count the entries."),
    is_cancelled: bool = option("Cancel the replay that is running.", None, "--cancel"),
) -> None:
    """Send entries again that the push has sent, without moving the group.

    The gateway sends them in the background. `headgate push show` shows the progress.

        headgate push replay orders billing --from 2h --filter '{"exact":{"sku":"42"}}'
    """
    push = push_of(gateway, stream, group, match=False)
    if is_cancelled:
        show_item(_replay_facts(push.cancel_replay()), as_json=as_json)
        return
    if start is None:
        raise click.UsageError("--from is missing. To send all entries again, use --from -.")
    answer = push.replay(start, end or "+", filter=filter, dry_run=dry_run)
    show_item(answer if as_json else _replay_facts(answer), as_json=as_json)


def _replay_facts(replay: PushReplay) -> dict[str, object]:
    return {
        "replay": replay["id"],
        "state": replay["state"],
        "entries": f"{'at least ' if replay['at_least'] else ''}{replay['entries']}",
        "sent": replay["sent"],
        "failed": replay["failed"],
        "from": replay["start"],
        "to": replay["end"],
    }


@gateway_command("rotate", "headgate push rotate orders billing --overlap 1h", group=push_command)
def rotate(
    gateway: Client,
    stream: str,
    group: str,
    as_json: bool,
    overlap_ms: int | None = option(
        "How long requests are also signed with the old secret. Default: 1d."
    ),
    match: bool = MATCH,
) -> None:
    """Create a new secret for a push, and print it. The secret is shown only once."""
    secret = push_of(gateway, stream, group, match=match).rotate(overlap_ms=overlap_ms)
    show_secret({"stream": stream, "group": group, "secret": secret}, as_json=as_json)


@gateway_command("delete", "headgate push delete orders billing --yes", group=push_command)
def delete(
    gateway: Client, stream: str, group: str, yes: bool, as_json: bool, match: bool = MATCH
) -> None:
    """Delete a push, but keep its group and pending entries.

    The command asks for confirmation on a terminal.
    """
    confirm(f"Delete the push of the group {group!r} of the stream {stream!r}?", yes=yes)
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
