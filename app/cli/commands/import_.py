"""`headgate import`."""

import click

from headgate.app.backends.copying.moving import Move, Summary, Watcher
from headgate.app.cli.copies import (
    choice,
    copy_streams,
    except_option,
    only_option,
    replace_option,
)
from headgate.app.cli.flags import json_option
from headgate.app.cli.manual import epilog
from headgate.app.cli.places import StreamPlace, data_dir, open_plain, place_option, source, target

_HELP = """\
Bring the streams of a Redis or Valkey server along, and compare both sides.

SOURCE is a file of RDB (dump.rdb, or what `redis-cli --rdb` has written), or the URL of servers
from Redis 5: redis://, redis+cluster://, redis+sentinel://, or the same with rediss for TLS.
Nothing is written there, and rights to read (+@read) are enough. The streams go into the data
directory of a gateway that is stopped, or with --to redis:// into a gateway that runs and has a
Redis port, or into any other Redis from 7.0. Every user of the machine can read flags, so give a
URL with a password as a variable.

\b
headgate import redis://localhost:6379 --to data
headgate import redis+cluster://10.0.0.5,10.0.0.6 --to data --only 'orders*'
headgate import dump.rdb --to data

A copy has the entries with their ids, the counters, the expiry, and all groups with their
positions, consumers and pending entries: owner, time and number of deliveries. It lacks idempotency
keys and the idle times of consumers. The settings of stream nodes are those of the whole server, in
Redis and here: CONFIG has them.

Streams that change meanwhile are not complete, and the command says so. The copies come into force
together, when all of them are there. If the command ends before that, run it again: it goes on.
A stream of the target that differs is left alone without --replace.

The streams of servers that keep those of a gateway (`headgate serve --backend`) have keys that
begin with HEADGATE_REDIS_PREFIX. They are left out: `headgate move` copies them.
"""


@click.command(
    "import",
    help=_HELP,
    short_help="Bring the streams of a Redis server along.",
    epilog=epilog(failed="a stream is not copied, or differs"),
)
@click.argument("place", metavar="SOURCE", type=StreamPlace(), envvar="HEADGATE_IMPORT_FROM")
@place_option("import", "end", "--to", "Where they go; unless given, into the data directory.")
@click.option("--database", default=0, help="Database of an RDB file, if not the first.")
@only_option
@except_option
@replace_option
@json_option
def command(
    place: str,
    end: str | None,
    database: int,
    only: tuple[str, ...],
    left_out: tuple[str, ...],
    replace: bool,
    as_json: bool,
) -> None:
    """Bring streams along."""
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
