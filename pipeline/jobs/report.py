"""Reports of a job: results on standard output, progress on standard error."""

from __future__ import annotations

import datetime as dt
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import click

Row = Mapping[str, object]
_WIDTH_MAX = 60
_PERIOD_S = 1.0
_STDERR = 2


def answer(rows: Sequence[Row], *, as_json: bool, nothing: str = "nothing") -> None:
    """Say rows on standard output.

    Args:
        rows: all with the same names.
        as_json: one JSON array instead of a table.
        nothing: what a person reads if there are none.
    """
    if as_json:
        click.echo(json.dumps([dict(row) for row in rows], default=_plain, ensure_ascii=False))
        return
    if not rows:
        click.echo(nothing)
        return
    names = list(rows[0])
    table = [names, *([_text(row[name]) for name in names] for row in rows)]
    widths = [max(len(line[at]) for line in table) for at in range(len(names))]
    is_number = [all(_is_number(row[name]) for row in rows) for name in names]
    for line in table:
        cells = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, is_number, strict=True)
        ]
        click.echo("  ".join(cells).rstrip())


class ProgressLine:
    """Entries done of entries to do, on standard error: in place on a terminal, else line by line.

    Args:
        job: its name.
        total: entries to do; None if nobody knows.
        what: what is counted.
    """

    def __init__(self, job: str, total: int | None, what: str = "entries") -> None:
        self.done = 0
        self._job = job
        self._total = total
        self._what = what
        self._began_s = time.monotonic()
        self._printed_s = float("-inf")
        self._printed_done = -1

    def advance(self, count: int) -> None:
        """Add to the count."""
        self.done += count
        if time.monotonic() - self._printed_s >= _PERIOD_S:
            self._say(is_last=False)

    def finish(self) -> None:
        """Say the last word."""
        self._say(is_last=True)

    def _say(self, *, is_last: bool) -> None:
        self._printed_s = time.monotonic()
        of = "" if self._total is None else f" of {max(self._total, self.done):,}"
        rate = self.done / max(self._printed_s - self._began_s, 0.001)
        text = f"{self._job}: {self.done:,}{of} {self._what}, {rate:,.0f}/s"
        if sys.stderr.isatty():
            click.echo(f"\r{text:<70}", err=True, nl=is_last)
        elif self._printed_done != self.done:
            click.echo(text, err=True)
        self._printed_done = self.done


@contextmanager
def without_noise() -> Iterator[None]:
    """Keep to itself what others write on standard error meanwhile; if they fail, show it.

    A process that is started meanwhile, such as Java, stays as quiet for the rest of its life.
    """
    sys.stderr.flush()
    stderr = os.dup(_STDERR)
    with tempfile.TemporaryFile() as noise:
        os.dup2(noise.fileno(), _STDERR)
        try:
            yield
        except BaseException:
            noise.seek(0)
            os.write(stderr, noise.read())
            raise
        finally:
            os.dup2(stderr, _STDERR)
            os.close(stderr)


def _text(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.2f}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    text = str(_plain(value)) if not isinstance(value, str) else value
    return text if len(text) <= _WIDTH_MAX else f"{text[: _WIDTH_MAX - 1]}…"


def _is_number(value: object) -> bool:
    return value is None or isinstance(value, int | float)


def _plain(value: object) -> object:
    if isinstance(value, dt.datetime | dt.date):
        return value.isoformat()
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode(errors="replace")
    return str(value)
