"""`headgate move`."""

import asyncio
import json
import logging
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import click
from pydantic import ValidationError
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as ProgressBars

from headgate.app.backends.copying.moving import Move, MoveOutcome, MoveState, Summary, Watcher
from headgate.app.backends.embedded import open_snapshot
from headgate.app.backends.port import Backend
from headgate.app.cli.flags import json_option
from headgate.app.cli.words import word
from headgate.app.main import open_backend
from headgate.app.redis_syntax.glob import matcher
from headgate.app.redis_syntax.words import CommandError
from headgate.app.runtime.loading import show_progress
from headgate.app.settings import read_settings
from headgate.engine.errors import StreamError
from headgate.engine.journal.recovery import Progress, no_progress

_HELP = """\
Copy streams from one place to another, compare the copies, and put them into force.

A place is a data directory or a URL: redis://, redis+cluster://, redis+sentinel://, or the same
with rediss for TLS. Every user of the machine can read flags, so give a URL with a password as a
variable. What else there is to say of servers, such as the prefix of the keys, is said by the
HEADGATE_REDIS_ variables.

\b
headgate move --from data --to redis://localhost:6379
headgate move --from redis://localhost:6379 --to data --only 'orders*'

The gateway of a data directory has to be stopped. Whatever else writes to the streams should be
stopped, too: a stream that changes meanwhile is not complete, and the command says so.

A copy has the entries with their ids, the counters, the configuration, the expiry, and all groups
with their positions, policies, consumers and pending entries: owner, delivery count, idle time and
delay. It lacks idempotency keys, the batches that bulk writers have committed, staged chunks, and
the idle times of consumers.

The copies come into force together, when all of them are there. If the command ends before that,
run it again: it goes on. A stream of the target that is no copy is left alone without --replace.
"""

_EXPECTED = {MoveState.COPIED, MoveState.SAME}
_PATTERN = "Redis patterns, such as 'orders*'. May be repeated."


def _place_option(name: str, flag: str, text: str) -> Callable[..., Callable[..., None]]:
    variable = f"HEADGATE_MOVE_{flag.removeprefix('--').upper()}"
    return click.option(
        flag, name, metavar="PLACE", required=True, envvar=variable, show_envvar=True, help=text
    )


@click.command("move", help=_HELP, short_help="Copy streams between data directories and servers.")
@_place_option("source", "--from", "Where the streams are.")
@_place_option("target", "--to", "Where they go.")
@click.option("--only", multiple=True, metavar="PATTERN", help=f"Move these only. {_PATTERN}")
@click.option("--except", "left_out", multiple=True, metavar="PATTERN", help="Move all but these.")
@click.option("--replace", is_flag=True, help="Delete other streams of the same names.")
@json_option
def command(
    source: str,
    target: str,
    only: tuple[str, ...],
    left_out: tuple[str, ...],
    replace: bool,
    as_json: bool,
) -> None:
    """Copy streams from one place to another."""
    if source == target:
        raise click.UsageError("--from and --to are the same place")
    if "://" not in source and not Path(source).is_dir():
        raise click.ClickException(f"there is no directory {source}")
    is_chosen = _choice(only, left_out)
    # Whatever goes wrong ends in an error of this command.
    logging.getLogger("headgate").addHandler(logging.NullHandler())
    try:
        with _watching(as_json=as_json) as watcher:
            summary = asyncio.run(_move(source, target, watcher, is_chosen, replaces=replace))
    except (StreamError, OSError) as error:
        raise click.ClickException(str(error)) from None
    if as_json:
        click.echo(json.dumps(_facts(summary)))
    else:
        click.echo(_text(summary), err=not summary.is_complete)
    if not summary.is_complete:
        raise SystemExit(1)


def _choice(only: tuple[str, ...], left_out: tuple[str, ...]) -> Callable[[bytes], bool]:
    """Return what tells whether a stream of a name is moved.

    Raises:
        click.ClickException: a pattern is too long.
    """
    try:
        chosen = [matcher(pattern.encode()) for pattern in only or ("*",)]
        others = [matcher(pattern.encode()) for pattern in left_out]
    except CommandError as error:
        raise click.ClickException(str(error).removeprefix("ERR ")) from None
    return lambda name: (
        any(matches(name) for matches in chosen) and not any(matches(name) for matches in others)
    )


async def _move(
    source: str,
    target: str,
    watcher: Watcher,
    is_chosen: Callable[[bytes], bool],
    *,
    replaces: bool,
) -> Summary:
    async with _running(_opened("--to", target)) as end, _source(source) as begin:
        return await Move(begin, end, watcher, is_chosen=is_chosen, replaces=replaces).run()


@asynccontextmanager
async def _source(place: str) -> AsyncIterator[Backend]:
    """Open a place to read from; a data directory stays as it is."""
    if "://" in place:
        async with _running(_opened("--from", place)) as backend:
            yield backend
    else:
        with open_snapshot(Path(place), _progress()) as snapshot:
            yield snapshot


def _opened(flag: str, place: str) -> Backend:
    """Open a place.

    Raises:
        click.ClickException: the place or a setting is wrong.
    """
    chosen: dict[str, Any] = {"backend": place} if "://" in place else {"data_dir": Path(place)}
    try:
        return open_backend(read_settings(None, chosen), _progress())
    except ValidationError as error:  # its own text may repeat the URL, and so a password
        names = ", ".join(str(part) for each in error.errors() for part in each["loc"])
        texts = "; ".join(each["msg"].removeprefix("Value error, ") for each in error.errors())
        raise click.ClickException(f"{flag}: {names}: {texts}") from None


def _progress() -> Progress:
    """Return what shows how much of a directory is loaded, if somebody can see it."""
    return show_progress if sys.stderr.isatty() else no_progress


@asynccontextmanager
async def _running(backend: Backend) -> AsyncIterator[Backend]:
    """Let a backend do its work while the context lasts."""
    running = asyncio.create_task(backend.run())
    try:
        yield backend
    finally:
        await backend.close()
        await running


@contextmanager
def _watching(*, as_json: bool) -> Iterator[Watcher]:
    """Show how a move goes on: as JSON, on a terminal, or only what goes wrong."""
    console = Console(stderr=True)
    if as_json or not console.is_terminal or console.is_dumb_terminal:
        yield _Lines(as_json=as_json)
        return
    columns = BarColumn(), MofNCompleteColumn(), TextColumn("entries"), TimeRemainingColumn()
    with ProgressBars(*columns, console=console, transient=True) as progress:
        yield _Bar(progress)


class _Lines:
    """A line for each stream, or only for each that could not be moved."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json

    def began(self, streams: int, entries: int) -> None:
        """Show nothing."""

    def copied(self, entries: int) -> None:
        """Show nothing."""

    def ended(self, outcome: MoveOutcome) -> None:
        """Show what has become of a stream."""
        stream = outcome.stream.decode(errors="backslashreplace")
        if self._as_json:
            facts = {"stream": stream, "state": outcome.state, "why": outcome.why}
            click.echo(json.dumps(facts, ensure_ascii=False))
        elif outcome.state not in _EXPECTED:
            click.echo(f"{word(stream)} {outcome.state}: {outcome.why}", err=True)


class _Bar(_Lines):
    """A bar of the entries that are copied, and a line for each stream that could not be moved."""

    def __init__(self, progress: ProgressBars) -> None:
        super().__init__(as_json=False)
        self._progress = progress
        self._task: TaskID = progress.add_task("", total=None)

    def began(self, streams: int, entries: int) -> None:
        """Show how many entries there are."""
        del streams
        self._progress.update(self._task, total=entries)

    def copied(self, entries: int) -> None:
        """Show how many entries are copied."""
        self._progress.advance(self._task, entries)


def _facts(summary: Summary) -> dict[str, Any]:
    return {
        "streams": summary.streams,
        "entries": summary.entries,
        "states": {state: summary.states[state] for state in MoveState},
        "in_force": summary.is_in_force,
    }


def _text(summary: Summary) -> str:
    states, total = summary.states, summary.streams
    if not total:
        return "There is no stream to be moved."
    copied = f"{states[MoveState.COPIED]:,} of {total:,}"
    copies = f"{copied} streams copied with {summary.entries:,} entries"
    same = f", {states[MoveState.SAME]:,} were there already" if states[MoveState.SAME] else ""
    if not summary.is_in_force:
        return f"{copies}{same}. They are not in force yet: mend what is said above, and run again."
    if not summary.is_complete:
        return f"{copies}{same}, and in force. The streams above were left alone: see --replace."
    return f"{copies}{same}, compared, and in force."
