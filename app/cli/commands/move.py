import asyncio
import gc
import logging
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import click
from click.shell_completion import CompletionItem
from pydantic import ValidationError

from headgate.app.backends.copying.contents import StreamStore
from headgate.app.backends.copying.moving import (
    Move,
    MoveOutcome,
    MoveState,
    Summary,
    Watcher,
    write_streams,
)
from headgate.app.backends.embedded import open_snapshot
from headgate.app.backends.plain.commands import CommandFile
from headgate.app.backends.plain.rdb_file import RdbFile
from headgate.app.backends.plain.server import PlainServer
from headgate.app.backends.redis.durability import DurabilityLevel
from headgate.app.cli.declaration import argument, command, option
from headgate.app.cli.listing import Bar, counted_entries, progress_bar
from headgate.app.cli.words import json_line, word
from headgate.app.gateway.backends import open_backend, open_engine
from headgate.app.gateway.servers import client_options
from headgate.app.runtime.logs import show_progress
from headgate.app.settings import Settings, read_settings
from headgate.engine.clock import SystemClock
from headgate.engine.errors import Invalid, StreamError
from headgate.engine.journal.recovery import Progress, no_progress
from headgate.engine.journal.writer import FsyncPolicy
from headgate.engine.patterns import matcher

_EXPECTED = {MoveState.COPIED, MoveState.SAME}
_PATTERN = "pattern of Redis, such as 'orders*'. May be repeated."

_THRESHOLDS = (200_000, 20, 1_000)
"""With the usual ones of Python, copying takes twice as long."""

ONLY = option(f"Copy only streams that match this {_PATTERN}", click.STRING, metavar="PATTERN")
EXCEPT = option(
    f"Do not copy streams that match this {_PATTERN}", click.STRING, "--except", metavar="PATTERN"
)
REPLACE = option("Delete other streams of the target that have the same names.")


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
    done: str = ", compared, and active",
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
        outcome += f" Entries whose delay or deadline was not copied: {summary.untimed:,}."
    return f"{outcome} Keys not copied: {left_out}." if left_out else outcome


def _outcome(summary: Summary, done: str) -> str:
    states, total = summary.states, summary.streams
    if not total:
        return "No streams to copy."
    copied = f"{states[MoveState.COPIED]:,} of {total:,}"
    copies = f"{copied} streams copied with {counted_entries(summary.entries)}"
    same = f", {states[MoveState.SAME]:,} already existed" if states[MoveState.SAME] else ""
    if not summary.is_in_force:
        return f"{copies}{same}. They are not active yet: fix the errors above and run it again."
    if not summary.is_complete:
        return f"{copies}{same}, and active. The streams above were not replaced: see --replace."
    return f"{copies}{same}{done}."


_ANSWER_MS_MAX = 60_000
"""Time for an answer of a server that is not made for a gateway."""

_SCHEMES = ("redis://", "rediss://", "redis+cluster://", "redis+sentinel://")


class StreamPlace(click.ParamType[str]):
    """A data directory, the URL of servers, or a file, if one may stand there."""

    name = "place"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return it."""
        if value.startswith(("http://", "https://")):
            text = "use the Redis port of a running gateway"
            self.fail(f"{text}: redis://localhost:6379 with --redis-port 6379", param, ctx)
        return value

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return schemes of URLs, and let the shell complete paths."""
        del ctx, param
        schemes = [each for each in _SCHEMES if incomplete and each.startswith(incomplete)]
        return [*map(CompletionItem, schemes)] or [CompletionItem(incomplete, type="file")]


def place_option(command: str, flag: str, text: str, **attributes: Any) -> Any:
    """Declare the flag of a command that names a place; its help is the text."""
    return option(
        text,
        StreamPlace(),
        flag,
        metavar="PLACE",
        envvar=f"HEADGATE_{command.upper()}_{flag.removeprefix('--').upper()}",
        show_envvar=True,
        **attributes,
    )


class Running(StreamStore, Protocol):
    """A store that has work to do while it is used."""

    async def run(self) -> None:
        """Do the work until `close` is called."""
        ...

    async def close(self) -> None:
        """End `run`, when all changes are safe."""
        ...


Open = Callable[[Settings], Running]
"""Opens the servers that settings name."""


def open_plain(settings: Settings) -> PlainServer:
    """Return servers whose streams are no gateway's."""
    assert settings.backend is not None
    options = client_options(settings, settings.backend)._replace(
        answer_ms_max=_ANSWER_MS_MAX, durability=DurabilityLevel.NONE
    )
    return PlainServer(options, SystemClock())


@asynccontextmanager
async def source(
    flag: str, place: str, open_servers: Open = open_backend, *, database: int | None = None
) -> AsyncIterator[StreamStore]:
    """Open a place to read from; it stays as it is.

    Args:
        flag: by which the user named it.
        place: the place.
        open_servers: opens it, if it is a URL.
        database: of a file of RDB; None: no such file may stand there.

    Raises:
        click.ClickException: the place or a setting is wrong.
    """
    if "://" in place:
        servers = open_servers(_settings(flag, {"backend": place}))
        async with running(servers):
            yield servers
    else:
        with _opened(Path(place), database) as snapshot:
            yield snapshot


def _opened(path: Path, database: int | None) -> AbstractContextManager[StreamStore]:
    """Open a directory or a file on the disk."""
    if path.is_dir():
        return open_snapshot(path, _progress())
    if path.is_file() and database is not None:
        return closing(RdbFile(path, database, SystemClock()))
    what = "directory" if database is None else "directory or file"
    raise click.ClickException(f"no such {what}: {path}")


@asynccontextmanager
async def target(
    flag: str, place: str, open_servers: Open = open_backend
) -> AsyncIterator[StreamStore]:
    """Open a place to write to.

    The journal of a data directory is forced to disk once, at the end: a copy that is not complete
    can be made again.

    Raises:
        click.ClickException: the place or a setting is wrong.
    """
    if "://" in place:
        store = open_servers(_settings(flag, {"backend": place}))
    else:
        settings = _settings(flag, {"data_dir": Path(place), "fsync": FsyncPolicy.NO})
        store = open_engine(settings, _progress())
    async with running(store):
        yield store


def data_dir() -> str:
    """Return the data directory of the gateway that the settings describe."""
    return str(_settings("HEADGATE_DATA_DIR", {}).data_dir)


def _settings(flag: str, chosen: dict[str, Any]) -> Settings:
    """Return the settings with a place in them.

    Raises:
        click.ClickException: the place or a setting is wrong.
    """
    try:
        return read_settings(None, chosen)
    except ValidationError as error:  # its own text may repeat the URL, and so a password
        names = ", ".join(str(part) for each in error.errors() for part in each["loc"])
        texts = "; ".join(each["msg"].removeprefix("Value error, ") for each in error.errors())
        raise click.ClickException(f"{flag}: {names}: {texts}") from None


def _progress() -> Progress:
    """Return the callback that shows the progress of loading, if a person can see it."""
    return show_progress if sys.stderr.isatty() else no_progress


@asynccontextmanager
async def running(store: Running) -> AsyncIterator[None]:
    """Let a store do its work while the context lasts."""
    work = asyncio.create_task(store.run())
    try:
        yield
    finally:
        await store.close()
        await work


_NOT_COPIED = "a stream was not copied, or its copy differs"


@command(
    "move", failed=_NOT_COPIED, short_help="Copy streams between data directories and servers."
)
def move_command(
    as_json: bool,
    begin: str = place_option("move", "--from", "Source of the streams.", required=True),
    end: str = place_option("move", "--to", "Target of the copies.", required=True),
    only: tuple[str, ...] = ONLY,
    left_out: tuple[str, ...] = EXCEPT,
    replace: bool = REPLACE,
) -> None:
    """Copy streams between data directories and servers of gateways, and compare the copies.

    A PLACE is a data directory, or the URL of servers that keep the streams of a gateway (`headgate
    serve --backend`): redis://, redis+cluster://, redis+sentinel://, or the same with rediss for
    TLS. Give a URL with a password in a variable, because every user of the machine can read flags.
    The HEADGATE_REDIS_ variables are the other settings of the servers, such as the key prefix.
    To copy from and to a Redis that no gateway uses, see `headgate import` and `headgate export`.

        headgate move --from data --to redis://localhost:6379
        headgate move --from redis://localhost:6379 --to data --only 'orders*'

    Stop the gateway of a data directory first. Also stop all other programs that write to the
    streams. If a stream changes during the copy, its copy is incomplete, and the command reports
    that.

    A copy contains the entries with their ids, the counters, the configuration, the expiry, and all
    groups with their positions, policies, consumers and pending entries: owner, delivery count,
    idle time and delay. It does not contain idempotency keys, the committed batches of bulk
    writers, staged chunks, and the idle times of consumers.

    All copies become active together, after the last one is complete. If the command ends before
    that, run it again to continue. Without --replace, it does not change a stream of the target
    that is not a copy.
    """
    if begin == end:
        raise click.UsageError("--from and --to must be different places")
    is_chosen = choice(only, left_out)

    async def move(watcher: Watcher) -> Summary:
        async with source("--from", begin) as old, target("--to", end) as new:
            return await Move(old, new, watcher, is_chosen=is_chosen, replaces=replace).run()

    copy_streams(move, as_json=as_json)


@command("import", failed=_NOT_COPIED, short_help="Import the streams of a Redis server.")
def import_command(
    as_json: bool,
    place: str = argument(StreamPlace(), metavar="SOURCE", envvar="HEADGATE_IMPORT_FROM"),
    end: str | None = place_option(
        "import", "--to", "Target of the copies. Default: the data directory."
    ),
    database: int = option("Database of an RDB file. Default: the first.", default=0),
    only: tuple[str, ...] = ONLY,
    left_out: tuple[str, ...] = EXCEPT,
    replace: bool = REPLACE,
) -> None:
    """Import the streams of a Redis or Valkey server, and compare both sides.

    SOURCE is an RDB file (dump.rdb, or the output of `redis-cli --rdb`), or the URL of servers from
    Redis 5: redis://, redis+cluster://, redis+sentinel://, or the same with rediss for TLS. The
    command writes nothing to the source, and needs only the right to read (+@read).

    The target is the data directory of a stopped gateway. With --to redis://, it is the Redis port
    of a running gateway, or any other Redis from 7.0. Give a URL with a password in a variable,
    because every user of the machine can read flags.

        headgate import redis://localhost:6379 --to data
        headgate import redis+cluster://10.0.0.5,10.0.0.6 --to data --only 'orders*'
        headgate import dump.rdb --to data

    A copy contains the entries with their ids, the counters, the expiry, and all groups with their
    positions, consumers and pending entries: owner, time and number of deliveries. It does not
    contain idempotency keys and the idle times of consumers. The settings of stream nodes belong to
    the whole server, in Redis and in Headgate: see CONFIG.

    If a stream changes during the copy, its copy is incomplete, and the command reports that. All
    copies become active together, after the last one is complete. If the command ends before that,
    run it again to continue. Without --replace, it does not change a stream of the target that
    differs.

    The command skips the streams of gateways (`headgate serve --backend`), whose keys begin with
    HEADGATE_REDIS_PREFIX. Copy them with `headgate move`.
    """
    end = end or data_dir()
    if place == end:
        raise click.UsageError("SOURCE and --to must be different places")
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
        "export", "--from", "Source of the streams. Default: the data directory."
    ),
    end: str | None = place_option("export", "--to", "Servers to copy to."),
    output: Path | None = option(
        "File to write as Redis commands.", click.Path(dir_okay=False, path_type=Path)
    ),
    only: tuple[str, ...] = ONLY,
    left_out: tuple[str, ...] = EXCEPT,
    replace: bool = REPLACE,
) -> None:
    """Copy streams to a Redis or Valkey server, or write them as commands for `redis-cli --pipe`.

    The source is the data directory of a stopped gateway. With --from redis://, it is the Redis
    port of a running gateway. The target is a server from Redis 7.0: redis://, redis+cluster://,
    redis+sentinel://, or the same with rediss for TLS. Give a URL with a password in a variable,
    because every user of the machine can read flags.

        headgate export --from data --to redis://localhost:6379
        headgate export --from data --output streams.resp
        headgate export --from data | redis-cli --pipe

    A copy contains the entries with their ids, the counters, the expiry, and all groups with their
    positions, consumers and pending entries: owner, time and number of deliveries. Redis has no
    policies, no limits of age or length on a stream, no delays and no deadlines, so copies lack
    them. The command reports how many entries had a delay or a deadline. Before Redis 8.8, each
    pending entry needs an owner: entries without one get a consumer with an empty name.

    With --to, the command compares both sides at the end. If it is interrupted, run it again to
    continue. Without --replace, it does not change a stream of the target that differs.
    """
    begin = begin or data_dir()
    is_chosen = choice(only, left_out)
    if end is not None and output is not None:
        raise click.UsageError("--to and --output cannot be used together")
    if end is not None and "://" not in end:
        raise click.UsageError("--to must be a URL; `headgate move` copies to data directories")
    if begin == end:
        raise click.UsageError("--from and --to must be different places")
    if end is None and output is None and sys.stdout.isatty():
        raise click.UsageError("Missing target: --to URL, --output FILE, or | redis-cli --pipe")

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
    """Open standard output, or a file that gets its name once it is complete."""
    if path is None:
        yield sys.stdout.buffer
    else:
        with _part(path).open("wb") as file:
            yield file


def _part(path: Path) -> Path:
    return path.with_name(f"{path.name}.part")
