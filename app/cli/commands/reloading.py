"""Reloading: a gateway that starts again when its code changes, for those who change it."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

import click

_SUFFIXES = (".py", ".html", ".css", ".md", ".svg", ".lua", ".json")
_STOP_S = 10
"""A gateway that has readers takes some seconds to end."""


def serve_again_and_again(words: Sequence[str]) -> None:
    """Run `headgate serve` until Ctrl-C, and start it again after each change of its code.

    Args:
        words: of the command line, behind `serve`.

    Raises:
        click.ClickException: the package that watches files is not installed.
    """
    try:
        from watchfiles import Change, run_process  # noqa: PLC0415 only those who change the code
    except ImportError:
        raise click.ClickException("--dev needs a package: pip install watchfiles") from None

    def is_code(_: Change, path: str) -> bool:
        return path.endswith(_SUFFIXES)

    def report(changes: set[tuple[Change, str]]) -> None:
        names = sorted({Path(path).name for _, path in changes})
        click.echo(f"Changed: {', '.join(names)}. The gateway starts again.", err=True)

    program = [sys.executable, "-m", "headgate.app.cli", "serve", *words]
    run_process(
        *_folders(),
        target=shlex.join(program),
        target_type="command",
        watch_filter=is_code,
        callback=report,
        sigint_timeout=_STOP_S,
    )


def _folders() -> list[Path]:
    """Return the folders of the code; those of a checkout are behind links."""
    import headgate  # noqa: PLC0415 the whole of it is no part of anything here

    [top] = headgate.__path__
    return [path.resolve() for path in Path(top).iterdir() if path.is_dir()]
