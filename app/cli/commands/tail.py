"""`headgate tail`."""

from collections.abc import AsyncGenerator
from typing import Any

import click

from headgate.app.cli.flags import gateway_options, json_option, stream_argument
from headgate.app.cli.manual import epilog
from headgate.app.cli.output.display import Display, open_display
from headgate.app.cli.rules import filter_option
from headgate.client.client import AsyncClient
from headgate.client.entries import Entry
from headgate.client.stream import Following, Stream

_PAGE = 1_000

_GLOB = frozenset("*?[")

_HELP = """\
Follow a stream: every entry, as it comes, until Ctrl-C or until the stream is closed.
A name with *, ? or [ is a pattern, unless there is --no-follow: every entry of all streams that
match comes, with its stream.

A connection that breaks is made again, and goes on after the last entry. On a terminal entries
are cut to one line each; in a pipe they are whole, as lines `ID NAME=VALUE …`.

\b
headgate tail orders                      what comes from now on
headgate tail orders --after 0            everything, then what comes
headgate tail orders --no-follow          everything there is
headgate tail orders --no-follow --json | jq .fields.sku
headgate tail orders --filter '{"exact":{"sku":"42"}}'
headgate tail 'orders.*'                  all streams that match, and those that come later
"""


@click.command(
    "tail", help=_HELP, short_help="Follow a stream: every entry, as it comes.", epilog=epilog()
)
@stream_argument
@click.option(
    "--after",
    metavar="ID",
    help="Begin after this entry; 0 is before the oldest, $ is from now on.  "
    "[default: $; with --no-follow: 0]",
)
@click.option("--limit", type=click.IntRange(min=1), help="End after so many entries.")
@filter_option
@click.option("--no-follow", is_flag=True, help="Show what is there, and end.")
@click.option("--wrap", is_flag=True, help="On a terminal: show long entries whole.")
@json_option
@gateway_options
async def command(
    stream: str,
    after: str | None,
    limit: int | None,
    filter: Any,  # noqa: A002
    no_follow: bool,
    wrap: bool,
    as_json: bool,
    gateway: AsyncClient,
) -> None:
    """Follow a stream."""
    display = open_display(stream, as_json=as_json, wrap=wrap)
    source = gateway.stream(stream)
    if no_follow:
        portions = _present(source, after or "0", filter, display)
    elif _GLOB.intersection(stream):
        portions = _coming(
            gateway.follow(stream, after=after or "$", on_state=display.note_state, filter=filter),
            display,
        )
    else:
        portions = _coming_of(source, after or "$", filter, display)
    left = limit
    with display:
        async for entries in portions:
            display.show(entries[:left])
            left = None if left is None else left - len(entries)
            if left is not None and left <= 0:
                return
        if not no_follow:
            display.note("the stream is closed: nothing comes any more")


async def _present(
    stream: Stream, after: str, condition: Any, display: Display
) -> AsyncGenerator[list[Entry]]:
    """Yield the present entries, by pages."""
    async for page in stream.pages(after=after, limit=_PAGE, filter=condition):
        if page.gap is not None:
            display.note_gap(page.gap)
        yield page.entries


async def _coming_of(
    stream: Stream, after: str, condition: Any, display: Display
) -> AsyncGenerator[list[Entry]]:
    """Yield entries of a stream, which exists, behind an id as they come."""
    last_id = (await stream.info())["last_id"]
    following = stream.follow(
        after=last_id if after == "$" else after, on_state=display.note_state, filter=condition
    )
    async for portion in _coming(following, display):
        yield portion


async def _coming(following: Following, display: Display) -> AsyncGenerator[list[Entry]]:
    """Yield entries as they come, as many at once as there are."""
    async with following:
        async for entry in following:
            if following.gap is not None:
                display.note_gap(following.gap)
            portion = [entry]
            while following.ready_count:
                portion.append(await anext(following))
            yield portion
