"""`headgate export`."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import click

from headgate.app.backends.copying.moving import Move, Summary, Watcher
from headgate.app.backends.copying.writing import write_streams
from headgate.app.backends.plain.command_file import CommandFile
from headgate.app.cli.copies import (
    choice,
    copy_streams,
    except_option,
    only_option,
    replace_option,
)
from headgate.app.cli.flags import json_option
from headgate.app.cli.manual import epilog
from headgate.app.cli.places import data_dir, open_plain, place_option, source, target

_HELP = """\
Copy streams to a Redis or Valkey server, or write them as commands that redis-cli --pipe takes.

The streams come from the data directory of a gateway that is stopped, or with --from redis:// from
a gateway that runs and has a Redis port. They go to servers from Redis 7.0: redis://,
redis+cluster://, redis+sentinel://, or the same with rediss for TLS. Every user of the machine can
read flags, so give a URL with a password as a variable.

\b
headgate export --from data --to redis://localhost:6379
headgate export --from data --output streams.resp
headgate export --from data | redis-cli --pipe

A copy has the entries with their ids, the counters, the expiry, and all groups with their
positions, consumers and pending entries: owner, time and number of deliveries. Redis has no
policies, no bounds of age or length of its own, no delays and no deadlines, so a copy lacks them.
The command says how many entries had a delay or a deadline. Before Redis 8.8 each pending entry has
an owner: those without get a consumer whose name is empty.

With --to both sides are compared at the end, and a command that was ended goes on when it is run
again. A stream of the target that differs is left alone without --replace.
"""

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command(
    "export",
    help=_HELP,
    short_help="Copy streams to a Redis server, or to a file.",
    epilog=epilog(failed="a stream is not copied, or differs"),
)
@place_option("export", "begin", "--from", "Where they are; unless given, in the data directory.")
@place_option("export", "end", "--to", "The servers to which they go.")
@click.option("--output", type=_FILE, help="The file to which they go, as commands.")
@only_option
@except_option
@replace_option
@json_option
def command(
    begin: str | None,
    end: str | None,
    output: Path | None,
    only: tuple[str, ...],
    left_out: tuple[str, ...],
    replace: bool,
    as_json: bool,
) -> None:
    """Copy streams to a server, or to a file."""
    begin = begin or data_dir()
    is_chosen = choice(only, left_out)
    if end is not None and output is not None:
        raise click.UsageError("--to or --output, not both")
    if end is not None and "://" not in end:
        raise click.UsageError("--to is a URL; `headgate move` copies to data directories")
    if begin == end:
        raise click.UsageError("--from and --to are the same place")
    if end is None and output is None and sys.stdout.isatty():
        raise click.UsageError("where to? --to URL, --output FILE, or | redis-cli --pipe")

    async def export(watcher: Watcher) -> Summary:
        async with source("--from", begin, open_plain) as old:
            if end is None:
                with _file(output) as file:
                    commands = CommandFile(file.write)
                    summary = await write_streams(old, commands, watcher, is_chosen)
                if output is not None and summary.is_complete:
                    _part(output).replace(output)
                return summary
            async with target("--to", end, open_plain) as new:
                return await Move(old, new, watcher, is_chosen=is_chosen, replaces=replace).run()

    if end is None:
        copy_streams(export, as_json=as_json, to_error=output is None, done="")
    else:
        copy_streams(export, as_json=as_json)


@contextmanager
def _file(path: Path | None) -> Iterator[BinaryIO]:
    """Open the standard output, or a file that gets its name when it is complete."""
    if path is None:
        yield sys.stdout.buffer
    else:
        with _part(path).open("wb") as file:
            yield file


def _part(path: Path) -> Path:
    return path.with_name(f"{path.name}.part")
