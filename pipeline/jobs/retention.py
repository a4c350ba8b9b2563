"""Remove old entries from the lake and its views."""

from __future__ import annotations

import datetime as dt
import time

import click

from headgate.pipeline.erasure import retire
from headgate.pipeline.jobs.forget import until
from headgate.pipeline.lake import RETENTION_H_MIN, Lake
from headgate.pipeline.terminal.flags import Duration, Flags, options
from headgate.pipeline.terminal.report import ProgressLine, answer
from headgate.pipeline.views.latest import views_of

_HOUR_MS = 3_600_000


@click.command(
    help="""Take entries out of the lake and its views that are older than --older-than.

    The age is that of the id. What the lake holds of a stream then begins later, and `verify`,
    `archive` and `trim` go by that. An archive may run meanwhile. Streams are not changed.

    Files that are not needed any more are kept for those who still read them, and deleted after
    --retention, by the next run of this job or of `compact`.

    \b
    Every night:     headgate-pipeline retention --lake lake --older-than 90d
    What would go:   headgate-pipeline retention --lake lake --older-than 90d --dry-run
    """
)
@options("lake", "streams", "dry_run")
@click.option("--older-than", required=True, type=Duration(), help="Age of what goes: 90d.")
@click.option("--views", help="Folder of the views.  [the lake's name and -views]")
@click.option(
    "--retention", type=Duration(ms_min=RETENTION_H_MIN * _HOUR_MS), default="7d",
    show_default=True, help="Time that replaced files are kept.",
)  # fmt: skip
def main(flags: Flags, *, older_than: int, views: str | None, retention: int) -> None:
    """Retire old entries."""
    lake = Lake(flags.lake)
    streams = flags.names() if flags.streams else lake.streams()
    end_ms = max(int(time.time() * 1000) - older_than, 0)
    before = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=end_ms)
    hours = -(-retention // _HOUR_MS)
    progress = ProgressLine("retention", len(streams), "streams")
    rows: list[dict[str, object]] = []
    for stream in streams:
        # Views come first: without entries in the lake, nobody would know of the stream.
        of_stream = views_of(lake, stream, views)
        of_view = sum(view.retire(before, dry_run=flags.dry_run) for view in of_stream)
        removed, files = retire(lake, stream, end_ms, dry_run=flags.dry_run)
        if not flags.dry_run:
            for view in of_stream:
                view.vacuum(hours)
        held = lake.held(stream)
        rows.append(
            {
                "stream": stream,
                "removed": removed,
                "of_view": of_view,
                "files": files,
                "held_after": held and held.after,
                "remains": f"old files until {until(retention)}" if removed or of_view else None,
            }
        )
        progress.advance(1)
    if not flags.dry_run:
        lake.vacuum(hours)
    progress.finish()
    answer(rows, as_json=flags.as_json, nothing="the lake is empty")
