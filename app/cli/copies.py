"""Copies: the choice of streams, the progress and the outcome of a command that copies."""

import asyncio
import gc
import logging
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import click

from headgate.app.backends.copying.moving import MoveOutcome, MoveState, Summary, Watcher
from headgate.app.cli.declaration import option
from headgate.app.cli.output.listing import Bar, counted_entries, progress_bar
from headgate.app.cli.words import json_line, word
from headgate.engine.errors import Invalid, StreamError
from headgate.engine.patterns import matcher

_EXPECTED = {MoveState.COPIED, MoveState.SAME}
_PATTERN = "Redis patterns, such as 'orders*'. May be repeated."

_THRESHOLDS = (200_000, 20, 1_000)
"""With the usual ones of Python, copying takes twice as long."""

ONLY = option(f"Copy these only. {_PATTERN}", click.STRING, metavar="PATTERN")
EXCEPT = option("Copy all but these.", click.STRING, "--except", metavar="PATTERN")
REPLACE = option("Delete other streams of the same names.")


def choice(only: tuple[str, ...], left_out: tuple[str, ...]) -> Callable[[bytes], bool]:
    """Return a predicate of names: whether a stream is copied.

    Raises:
        click.ClickException: a pattern is too long.
    """
    try:
        chosen = [matcher(pattern.encode()) for pattern in only or ("*",)]
        others = [matcher(pattern.encode()) for pattern in left_out]
    except Invalid as error:
        raise click.ClickException(str(error)) from None
    return lambda name: (
        any(matches(name) for matches in chosen) and not any(matches(name) for matches in others)
    )


def copy_streams(
    copy: Callable[[Watcher], Coroutine[Any, Any, Summary]],
    *,
    as_json: bool,
    to_error: bool = False,
    done: str = ", compared, and in force",
) -> None:
    """Copy streams, and show how it goes; end with 1 if not all of them are as they should be.

    Args:
        copy: copies them.
        as_json: show JSON.
        to_error: nothing may be shown on the standard output, as the copies go there.
        done: what is said of copies that are as they should be.

    Raises:
        click.ClickException: a place is not there, or cannot be used.
    """
    # Whatever goes wrong ends in an error of this command.
    logging.getLogger("headgate").addHandler(logging.NullHandler())
    try:
        with _collecting_rarely(), progress_bar(what="entries", is_hidden=as_json) as bar:
            summary = asyncio.run(copy(_Watcher(bar, as_json=as_json, to_error=to_error)))
    except (StreamError, OSError) as error:
        raise click.ClickException(str(error)) from None
    if as_json:
        click.echo(json_line(_facts(summary)), err=to_error)
    else:
        click.echo(_text(summary, done), err=to_error or not summary.is_complete)
    if not summary.is_complete:
        raise SystemExit(1)


@contextmanager
def _collecting_rarely() -> Iterator[None]:
    """Look for garbage after more new objects than usual: pages are many objects, and no cycles."""
    usual = gc.get_threshold()
    gc.set_threshold(*_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*usual)


class _Watcher:
    """A bar of the entries that are copied, and a line for each stream, or for each left alone."""

    def __init__(self, bar: Bar, *, as_json: bool, to_error: bool) -> None:
        self._bar = bar
        self._as_json = as_json
        self._to_error = to_error

    def began(self, streams: int, entries: int) -> None:
        """Show how many entries there are."""
        del streams
        self._bar.expect(entries)

    def copied(self, entries: int) -> None:
        """Show how many entries are copied."""
        self._bar.advance(entries)

    def ended(self, outcome: MoveOutcome) -> None:
        """Show the outcome of one stream."""
        stream = outcome.stream.decode(errors="backslashreplace")
        if self._as_json:
            facts = {"stream": stream, "state": outcome.state, "why": outcome.why}
            click.echo(json_line(facts), err=self._to_error)
        elif outcome.state not in _EXPECTED:
            click.echo(f"{word(stream)} {outcome.state}: {outcome.why}", err=True)


def _facts(summary: Summary) -> dict[str, Any]:
    return {
        "streams": summary.streams,
        "entries": summary.entries,
        "states": {state: summary.states[state] for state in MoveState},
        "in_force": summary.is_in_force,
        "untimed": summary.untimed,
        "left_out": dict(summary.left_out),
    }


def _text(summary: Summary, done: str) -> str:
    left_out = ", ".join(f"{count:,} {kind}" for kind, count in summary.left_out.items() if count)
    outcome = _outcome(summary, done)
    if summary.untimed:
        outcome += f" Delays and deadlines left out: {summary.untimed:,}."
    return f"{outcome} Keys left out: {left_out}." if left_out else outcome


def _outcome(summary: Summary, done: str) -> str:
    states, total = summary.states, summary.streams
    if not total:
        return "There is no stream to be copied."
    copied = f"{states[MoveState.COPIED]:,} of {total:,}"
    copies = f"{copied} streams copied with {counted_entries(summary.entries)}"
    same = f", {states[MoveState.SAME]:,} were there already" if states[MoveState.SAME] else ""
    if not summary.is_in_force:
        return f"{copies}{same}. They are not in force yet: mend what is said above, and run again."
    if not summary.is_complete:
        return f"{copies}{same}, and in force. The streams above were left alone: see --replace."
    return f"{copies}{same}{done}."
