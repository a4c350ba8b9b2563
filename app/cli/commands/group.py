"""`headgate group`."""

from typing import Any

import click

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
from headgate.app.cli.output.group_list import show_groups, watch_groups
from headgate.app.cli.output.listing import show_deletion, show_item
from headgate.app.cli.rules import policy_of, policy_options
from headgate.client.blocking import Client


@click.group("group", epilog=epilog("headgate group list orders --watch"))
def command() -> None:
    """Create, list, set and delete groups of consumers, and change their policies."""


@command.command(
    "create", epilog=epilog("headgate group create orders billing --start 0 --max-deliveries 5")
)
@stream_argument
@group_argument
@click.option(
    "--start",
    type=Utf8(),
    default="$",
    show_default=True,
    metavar="ID",
    help="It reads entries after this id; 0: all, $: those from now on.",
)
@policy_options
@json_option
@gateway_options
def create(
    stream: str, group: str, start: str, as_json: bool, gateway: Client, **rules: Any
) -> None:
    """Create a group, and its stream if it is not there; or do nothing if it has this policy."""
    policy = policy_of(rules) or None
    show_item(gateway.group(stream, group).create(start=start, policy=policy), as_json=as_json)


@command.command("list", epilog=epilog("headgate group list orders --watch"))
@stream_argument
@click.option("--watch", is_flag=True, help="Show it anew every second, until Ctrl-C.")
@json_option
@gateway_options
def list_groups(stream: str, watch: bool, as_json: bool, gateway: Client) -> None:
    """Show the groups of a stream and their consumers.

    Pending entries were delivered and not acknowledged. The lag counts entries that the group has
    not delivered yet.
    In a pipe: a header, then columns separated by tabs; the line of a group has no consumer.
    """
    if watch and as_json:
        raise click.UsageError("--watch needs a terminal.")
    if watch:
        watch_groups(gateway.stream(stream))
    show_groups(gateway.stream(stream), as_json=as_json)


@command.command("set", epilog=epilog("headgate group set orders billing 0"))
@stream_argument
@group_argument
@click.argument("start", type=Utf8(), metavar="ID")
@json_option
@gateway_options
def set_start(stream: str, group: str, start: str, as_json: bool, gateway: Client) -> None:
    """Let a group read on after an id; 0: from the beginning, $: from now on."""
    show_item(gateway.group(stream, group).update(start=start), as_json=as_json)


@command.command("policy", epilog=epilog("headgate group policy orders billing --backoff 1s,1m"))
@stream_argument
@group_argument
@policy_options
@json_option
@gateway_options
def policy(stream: str, group: str, as_json: bool, gateway: Client, **rules: Any) -> None:
    """Show the policy of a group, or change what flags name; `none` ends a rule."""
    reader, changes = gateway.group(stream, group), policy_of(rules)
    shown = reader.update(policy=changes) if changes else reader.info()
    show_item(shown["policy"], as_json=as_json, nothing="No rules are set.")


@command.command("delete", epilog=epilog("headgate group delete orders billing --yes"))
@stream_argument
@group_argument
@yes_option
@json_option
@gateway_options
def delete(stream: str, group: str, yes: bool, as_json: bool, gateway: Client) -> None:
    """Delete a group with what is pending in it. On a terminal it asks before."""
    confirm(f"Delete the group {group!r} of {stream!r}?", yes=yes)
    gateway.group(stream, group).delete()
    show_deletion({"stream": stream, "group": group}, as_json=as_json)
