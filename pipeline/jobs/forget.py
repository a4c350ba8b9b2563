"""Remove entries from the lake and its views, for good."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import click
import pyarrow as pa

from headgate.client import Cursor, HeadgateError
from headgate.pipeline.computing.entries import range_of
from headgate.pipeline.erasure import Selection, forget, forgetful_streams, forgotten, purge_lake
from headgate.pipeline.lake import RETENTION_H_MIN, Lake
from headgate.pipeline.offsets import BEGINNING, OffsetError, just_before, parse_id
from headgate.pipeline.terminal.flags import Duration, Flags, options
from headgate.pipeline.terminal.report import ProgressLine, answer
from headgate.pipeline.views.latest import views_of
from headgate.pipeline.views.view import View

_HOUR_MS = 3_600_000


@click.command(
    help="""Take entries out of the lake and its views, so that no file has them any more.

    The files that hold them are written again without them, and deleted at once: who reads an
    older version of the lake meanwhile does not find them. With --retention they are deleted so
    much later, by the next run of this job or of `compact`.

    The lake notes the ids. So `verify` counts what was forgotten and does not call it lost,
    `archive` does not bring it back, and `trim` may take it from the stream. What remains is said:
    the stream itself is not changed. A run that was killed is repeated.

    \b
    A customer:      headgate-pipeline forget --lake lake --streams orders --where user=ann
    Two entries:     headgate-pipeline forget --lake lake --streams orders --ids 1718000000000-0,…
    What would go:   headgate-pipeline forget --lake lake --where user=ann --dry-run
    """
)
@options("lake", "streams", "dry_run")
@click.option("--ids", help="Ids of entries, separated by commas.")
@click.option(
    "--where", multiple=True, metavar="FIELD=VALUE", help="What entries have; repeated: all of it."
)
@click.option("--views", help="Folder of the views.  [the lake's name and -views]")
@click.option(
    "--retention",
    type=Duration(ms_min=RETENTION_H_MIN * _HOUR_MS),
    help="Time that replaced files are kept.  [deleted at once]",
)
def main(
    flags: Flags, *, ids: str | None, where: Sequence[str], views: str | None, retention: int | None
) -> None:
    """Forget entries."""
    selection = _selection(ids, where)
    lake = Lake(flags.lake)
    streams = flags.names() if flags.streams else sorted(forgetful_streams(lake))
    progress = ProgressLine("forget", len(streams), "streams")
    rows: list[dict[str, object]] = []
    for stream in streams:
        of_stream = views_of(lake, stream, views)
        gone = forget(lake, stream, selection, dry_run=flags.dry_run)
        noted = pa.array(gone, pa.string()) if flags.dry_run else forgotten(lake, stream)
        of_view = sum(view.forget(noted, dry_run=flags.dry_run) for view in of_stream)
        deleted, remains = 0, list[str]()
        if not flags.dry_run and len(noted):
            deleted, remains = _delete(lake, of_stream, stream, noted, retention)
        remains += _in_stream(flags, stream, selection)
        rows.append(
            {
                "stream": stream,
                "forgotten": len(gone),
                "of_view": of_view,
                "files_deleted": deleted,
                "remains": "; ".join(remains) or None,
            }
        )
        progress.advance(1)
    progress.finish()
    answer(rows, as_json=flags.as_json, nothing="the lake is empty")


def _selection(ids: str | None, where: Sequence[str]) -> Selection:
    if (ids is None) == (not where):
        raise click.UsageError("which entries? Give either --ids or --where")
    try:
        chosen = None if ids is None else {str(parse_id(text.strip())) for text in ids.split(",")}
    except OffsetError as error:
        raise click.BadParameter(str(error), param_hint="--ids") from None
    values = {}
    for text in where:
        name, equals, value = text.partition("=")
        if not equals:
            raise click.BadParameter(f"{text!r} is not FIELD=VALUE", param_hint="--where")
        values[name] = value.encode()
    return Selection(None if chosen is None else frozenset(chosen), values)


def _delete(
    lake: Lake, views: Sequence[View], stream: str, ids: pa.Array, retention: int | None
) -> tuple[int, list[str]]:
    if retention is not None:
        hours = -(-retention // _HOUR_MS)
        deleted = len(lake.vacuum(hours)) + sum(view.vacuum(hours) for view in views)
        return deleted, [f"old files until {until(retention)}"]
    purged = [purge_lake(lake, stream), *(view.purge(ids) for view in views)]
    unread = sum(count for _, count in purged)
    remains = [f"{unread} files that are being written: run it again"] if unread else []
    return sum(count for count, _ in purged), remains


def until(retention_ms: int) -> str:
    """Return the time until which files that are replaced now are kept."""
    moment = dt.datetime.now(dt.UTC) + dt.timedelta(milliseconds=retention_ms)
    return moment.isoformat(timespec="minutes")


def _in_stream(flags: Flags, stream: str, selection: Selection) -> list[str]:
    try:
        with flags.client() as client:
            [plan] = client.plan([Cursor(stream, BEGINNING)])
    except HeadgateError as error:
        return [f"perhaps some in the stream: {error}"]
    if plan.first_id is None or plan.last_id is None:
        return []
    low, high = just_before(parse_id(plan.first_id)), parse_id(plan.last_id)
    if selection.ids is not None:
        ids = [parse_id(entry_id) for entry_id in selection.ids]
        low, high = max(low, just_before(min(ids))), min(high, max(ids))
    if low >= high:
        return []
    batches = range_of(flags, stream, str(low), str(high)).batches()
    count = sum(int(selection(rows).sum()) for rows in batches)
    return [f"{count} in the stream: delete them there"] if count else []
