"""The list of pushes, and one of them with the answers of its receiver."""

from collections.abc import Iterable, Mapping
from typing import Any

import click

from headgate.app.cli.durations import duration_text, time_text
from headgate.app.cli.output.listing import show_item, show_items
from headgate.app.cli.words import one_line
from headgate.client.shapes.answers import PushAttempt, PushInfo, PushSummary

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
