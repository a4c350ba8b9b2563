"""`headgate move`."""

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
from headgate.app.cli.places import place_option, source, target

_HELP = """\
Copy streams between places of gateways, compare the copies, and put them into force.

A place is a data directory, or the URL of servers that keep the streams of a gateway (`headgate
serve --backend`): redis://, redis+cluster://, redis+sentinel://, or the same with rediss for TLS.
Every user of the machine can read flags, so give a URL with a password as a variable. What else
there is to say of servers, such as the prefix of the keys, is said by the HEADGATE_REDIS_
variables. `headgate import` and `headgate export` copy from and to a Redis that no gateway uses.

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


@click.command(
    "move",
    help=_HELP,
    short_help="Copy streams between data directories and servers.",
    epilog=epilog(failed="a stream is not copied, or differs"),
)
@place_option("move", "begin", "--from", "Where the streams are.", required=True)
@place_option("move", "end", "--to", "Where they go.", required=True)
@only_option
@except_option
@replace_option
@json_option
def command(
    begin: str,
    end: str,
    only: tuple[str, ...],
    left_out: tuple[str, ...],
    replace: bool,
    as_json: bool,
) -> None:
    """Copy streams from one place to another."""
    if begin == end:
        raise click.UsageError("--from and --to are the same place")
    is_chosen = choice(only, left_out)

    async def move(watcher: Watcher) -> Summary:
        async with source("--from", begin) as old, target("--to", end) as new:
            return await Move(old, new, watcher, is_chosen=is_chosen, replaces=replace).run()

    copy_streams(move, as_json=as_json)
