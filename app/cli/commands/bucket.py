from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import click

from headgate.app.cli.data_dir import data_dir_option
from headgate.app.cli.declaration import argument, command, epilog, option
from headgate.app.cli.durations import TIME_PAST
from headgate.app.cli.listing import contents, counted
from headgate.app.runtime.logs import show_progress
from headgate.engine.bucket import restoring
from headgate.engine.bucket.bucket import Bucket
from headgate.engine.bucket.opening import open_bucket
from headgate.engine.bucket.restoring import BucketContent
from headgate.engine.errors import StreamError
from headgate.engine.journal import recovery
from headgate.engine.journal.disk import SystemDisk

_FAILED = "the bucket is damaged or not reachable"


@click.group("bucket", epilog=epilog("headgate bucket ls s3://streams/prod", failed=_FAILED))
def bucket_command() -> None:
    """Inspect and verify the bucket of a gateway, and restore from it.

    URL is the value of `headgate serve --bucket`. Credentials come from the same variables and
    files as those of the gateway.
    """


_URL = argument(click.STRING)


@command("ls", "headgate bucket ls s3://streams/prod", group=bucket_command, failed=_FAILED)
def ls(as_json: bool, url: str = _URL) -> None:
    """Show the leader, the content and the restorable times of a bucket."""
    with _opened(url) as bucket:
        content = restoring.content(bucket)
    click.echo(json.dumps(_facts(content)) if as_json else "\n".join(_lines(content)))


@command("verify", "headgate bucket verify s3://streams/prod", group=bucket_command, failed=_FAILED)
def verify(as_json: bool, url: str = _URL) -> None:
    """Read the whole bucket and verify its checksums."""
    with _opened(url) as bucket:
        verified = restoring.verify(bucket, partial(show_progress, what="Reading"))
    if as_json:
        click.echo(json.dumps(verified._asdict()))
        return
    size = f"{counted(verified.object_count, 'object')} with {verified.size_bytes} bytes"
    click.echo(f"{url} is intact: {size}, up to record {verified.position}")
    if verified.unnamed:
        objects = counted(len(verified.unnamed), "object")
        click.echo(f"{objects} of incomplete uploads: {verified.unnamed[0]} …")


@command(
    "restore",
    group=bucket_command,
    failed=f"{_FAILED}, or the data directory already has a journal",
    short_help="Restore the present or an earlier state into a data directory.",
)
def restore(
    as_json: bool,
    url: str = _URL,
    data_dir: Path = data_dir_option("Data directory to create.", exists=False),
    at_ms: int | None = option(
        "Restore the state at this time, or this long ago, such as 15m.", TIME_PAST
    ),
) -> None:
    """Restore the present or an earlier state of a bucket into a data directory.

    The directory does not belong to a bucket. A gateway can serve it without a bucket, or ship it
    to a new one.

    --at restores the journal up to its last part before that time. By default, a gateway writes a
    part every second.

        headgate bucket restore s3://streams/prod --data-dir restored
        headgate bucket restore s3://streams/prod --data-dir before --at 2026-11-26T10:30:00Z
        headgate bucket restore s3://streams/prod --data-dir before --at 15m
    """
    with _opened(url) as bucket, closing(SystemDisk(data_dir)) as disk:
        if recovery.names_in_use(disk):
            raise click.ClickException(f"{data_dir} already has a journal")
        progress = partial(show_progress, what="Reading")
        restoring.restore(bucket, disk, at_ms=at_ms, has_extents=True, progress=progress)
        loaded = recovery.load(disk, progress=show_progress)
    counts = loaded.counts()
    if as_json:
        click.echo(json.dumps({"position": loaded.position, **counts._asdict()}))
        return
    click.echo(f"{data_dir} contains {contents(loaded.position, *counts)}")


@contextmanager
def _opened(url: str) -> Iterator[Bucket]:
    try:
        with closing(open_bucket(url)) as bucket:
            yield bucket
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="URL") from None
    except StreamError as error:
        raise click.ClickException(f"{url}: {error}") from None
    except OSError as error:
        raise click.ClickException(f"{url}: {error.strerror or error}") from None


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(sep=" ", timespec="seconds")


_OF_MANIFEST = ("number", "at_ms", "term", "position", "size_bytes")


def _facts(content: BucketContent) -> dict[str, object]:
    lease, last = content.lease, content.last_part
    return {
        "term": None if lease is None else lease.lease.term,
        "leader": None if lease is None or lease.lease.is_released else lease.lease.address,
        "size_bytes": content.size_bytes,
        "file_count": content.file_count,
        "part_count": content.part_count,
        "position": 0 if last is None else last.position,
        "since_ms": content.since_ms,
        "last_put_ms": None if last is None else last.put_ms,
        "manifests": [
            {name: getattr(manifest, name) for name in _OF_MANIFEST}
            for manifest in content.manifests
        ],
    }


def _lines(content: BucketContent) -> Iterator[str]:
    lease, last, since_ms = content.lease, content.last_part, content.since_ms
    if lease is None:
        yield "The bucket has no leader."
    elif lease.lease.is_released:
        yield f"The bucket has no leader. The last leader had term {lease.lease.term}."
    else:
        where = f" at {lease.lease.address}" if lease.lease.address else ""
        yield f"The leader{where} has term {lease.lease.term}."
    if last is None or since_ms is None:
        yield "The bucket is empty."
        return
    objects = f"{counted(content.file_count, 'file')} and {counted(content.part_count, 'part')}"
    size = f"{content.size_bytes} bytes in {objects} of the journal"
    yield f"{size}, up to record {last.position}."
    yield f"You can restore any state from {_time(since_ms)} to {_time(last.put_ms)}."
    if content.manifests:
        yield ""
        yield f"{'manifest':>8}  {'made':<25}  {'term':>6}  {'snapshot of':>12}  {'bytes':>15}"
    for manifest in reversed(content.manifests):
        yield (
            f"{manifest.number:>8}  {_time(manifest.at_ms):<25}  {manifest.term:>6}  "
            f"{manifest.position:>12}  {manifest.size_bytes:>15}"
        )
