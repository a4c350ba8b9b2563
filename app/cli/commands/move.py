"""`headgate move`, `import`, `export`."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import click

from headgate.app.backends.copying.moving import Move, Summary, Watcher, write_streams
from headgate.app.backends.plain.commands import CommandFile
from headgate.app.cli.copies import EXCEPT, ONLY, REPLACE, choice, copy_streams
from headgate.app.cli.declaration import argument, command, option
from headgate.app.cli.places import StreamPlace, data_dir, open_plain, place_option, source, target

_NOT_COPIED = "a stream is not copied, or differs"


@command(
    "move", failed=_NOT_COPIED, short_help="Copy streams between data directories and servers."
)
def move_command(
    as_json: bool,
    begin: str = place_option("move", "--from", "Where the streams are.", required=True),
    end: str = place_option("move", "--to", "Where they go.", required=True),
    only: tuple[str, ...] = ONLY,
    left_out: tuple[str, ...] = EXCEPT,
    replace: bool = REPLACE,
) -> None:
    """Copy streams between places of gateways, compare the copies, and put them into force.

    A place is a data directory, or the URL of servers that keep the streams of a gateway (`headgate
    serve --backend`): redis://, redis+cluster://, redis+sentinel://, or the same with rediss for
    TLS. Every user of the machine can read flags, so give a URL with a password as a variable. What
    else there is to say of servers, such as the prefix of the keys, is said by the HEADGATE_REDIS_
    variables. `headgate import` and `headgate export` copy from and to a Redis that no gateway
    uses.

        headgate move --from data --to redis://localhost:6379
        headgate move --from redis://localhost:6379 --to data --only 'orders*'

    The gateway of a data directory has to be stopped. Whatever else writes to the streams should be
    stopped, too: a stream that changes meanwhile is not complete, and the command says so.

    A copy has the entries with their ids, the counters, the configuration, the expiry, and all
    groups with their positions, policies, consumers and pending entries: owner, delivery count,
    idle time and delay. It lacks idempotency keys, the batches that bulk writers have committed,
    staged chunks, and the idle times of consumers.

    The copies come into force together, when all of them are there. If the command ends before
    that, run it again: it goes on. A stream of the target that is no copy is left alone without
    --replace.
    """
    if begin == end:
        raise click.UsageError("--from and --to are the same place")
    is_chosen = choice(only, left_out)

    async def move(watcher: Watcher) -> Summary:
        async with source("--from", begin) as old, target("--to", end) as new:
            return await Move(old, new, watcher, is_chosen=is_chosen, replaces=replace).run()

    copy_streams(move, as_json=as_json)


@command("import", failed=_NOT_COPIED, short_help="Bring the streams of a Redis server along.")
def import_command(
    as_json: bool,
    place: str = argument(StreamPlace(), metavar="SOURCE", envvar="HEADGATE_IMPORT_FROM"),
    end: str | None = place_option(
        "import", "--to", "Where they go; unless given, into the data directory."
    ),
    database: int = option("Database of an RDB file, if not the first.", default=0),
    only: tuple[str, ...] = ONLY,
    left_out: tuple[str, ...] = EXCEPT,
    replace: bool = REPLACE,
) -> None:
    """Bring the streams of a Redis or Valkey server along, and compare both sides.

    SOURCE is a file of RDB (dump.rdb, or what `redis-cli --rdb` has written), or the URL of servers
    from Redis 5: redis://, redis+cluster://, redis+sentinel://, or the same with rediss for TLS.
    Nothing is written there, and rights to read (+@read) are enough. The streams go into the data
    directory of a gateway that is stopped, or with --to redis:// into a gateway that runs and has a
    Redis port, or into any other Redis from 7.0. Every user of the machine can read flags, so give
    a URL with a password as a variable.

        headgate import redis://localhost:6379 --to data
        headgate import redis+cluster://10.0.0.5,10.0.0.6 --to data --only 'orders*'
        headgate import dump.rdb --to data

    A copy has the entries with their ids, the counters, the expiry, and all groups with their
    positions, consumers and pending entries: owner, time and number of deliveries. It lacks
    idempotency keys and the idle times of consumers. The settings of stream nodes are those of the
    whole server, in Redis and here: CONFIG has them.

    Streams that change meanwhile are not complete, and the command says so. The copies come into
    force together, when all of them are there. If the command ends before that, run it again: it
    goes on. A stream of the target that differs is left alone without --replace.

    The streams of servers that keep those of a gateway (`headgate serve --backend`) have keys that
    begin with HEADGATE_REDIS_PREFIX. They are left out: `headgate move` copies them.
    """
    end = end or data_dir()
    if place == end:
        raise click.UsageError("SOURCE and --to are the same place")
    is_chosen = choice(only, left_out)

    async def bring(watcher: Watcher) -> Summary:
        async with (
            source("SOURCE", place, open_plain, database=database) as old,
            target("--to", end, open_plain) as new,
        ):
            summary = await Move(old, new, watcher, is_chosen=is_chosen, replaces=replace).run()
            summary.left_out = getattr(old, "left_out", {})
            return summary

    copy_streams(bring, as_json=as_json)


@command("export", failed=_NOT_COPIED, short_help="Copy streams to a Redis server, or to a file.")
def export_command(
    as_json: bool,
    begin: str | None = place_option(
        "export", "--from", "Where they are; unless given, in the data directory."
    ),
    end: str | None = place_option("export", "--to", "The servers to which they go."),
    output: Path | None = option(
        "The file to which they go, as commands.", click.Path(dir_okay=False, path_type=Path)
    ),
    only: tuple[str, ...] = ONLY,
    left_out: tuple[str, ...] = EXCEPT,
    replace: bool = REPLACE,
) -> None:
    """Copy streams to a Redis or Valkey server, or write them as commands that redis-cli --pipe takes.

    The streams come from the data directory of a gateway that is stopped, or with --from redis://
    from a gateway that runs and has a Redis port. They go to servers from Redis 7.0: redis://,
    redis+cluster://, redis+sentinel://, or the same with rediss for TLS. Every user of the machine
    can read flags, so give a URL with a password as a variable.

        headgate export --from data --to redis://localhost:6379
        headgate export --from data --output streams.resp
        headgate export --from data | redis-cli --pipe

    A copy has the entries with their ids, the counters, the expiry, and all groups with their
    positions, consumers and pending entries: owner, time and number of deliveries. Redis has no
    policies, no bounds of age or length of its own, no delays and no deadlines, so a copy lacks
    them. The command says how many entries had a delay or a deadline. Before Redis 8.8 each pending
    entry has an owner: those without get a consumer whose name is empty.

    With --to both sides are compared at the end, and a command that was ended goes on when it is
    run again. A stream of the target that differs is left alone without --replace.
    """  # noqa: E501 - the first line is shown whole
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
