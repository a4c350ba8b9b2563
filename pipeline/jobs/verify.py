"""Compare the lake with the streams: are the same entries in both?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import click
import pyarrow as pa
import pyarrow.compute as pc

from headgate.client import Plan
from headgate.client.blocking import Client
from headgate.pipeline.comparison import Comparison, Deletions, common_range, deletions
from headgate.pipeline.computing.entries import PAIRS, Archived, id_of, places_of, range_of
from headgate.pipeline.computing.ways import Way, way_of
from headgate.pipeline.erasure import forgotten
from headgate.pipeline.lake import Held, Lake
from headgate.pipeline.offsets import is_before, parse_id
from headgate.pipeline.terminal.flags import Flags, options
from headgate.pipeline.terminal.report import ProgressLine, answer

_RANGES = 256  # per stream: as many rows are compared on the driver
_WIDEST_MS = 2**62
_SIDE = pa.schema(
    [("place", pa.string()), ("ms", pa.int64()), ("fields", PAIRS), ("side", pa.string())]
)
_SPANS = """
    WITH entries AS (
        SELECT
            place,
            ms,
            count(*) FILTER (WHERE side = 'live') AS live,
            count(*) FILTER (WHERE side = 'lake') AS lake,
            count(*) FILTER (WHERE side = 'live, noted') AS noted,
            min(xxhash64(fields)) <> max(xxhash64(fields)) AS is_other
        FROM (SELECT * FROM {theirs} UNION ALL SELECT * FROM {ours}) GROUP BY place, ms
    ),
    judged AS (
        SELECT
            *,
            {is_gone_accepted} AND live = 0 AND lake > 0 AS is_gone,
            CASE
                WHEN live + lake = 0 OR ({is_gone_accepted} AND live = 0) THEN NULL
                WHEN lake = 0 THEN ' is not in the lake'
                WHEN live = 0 THEN ' is in the lake only'
                WHEN is_other THEN ' has other fields in the lake'
                ELSE ''
            END AS difference
        FROM entries
    )
    SELECT
        CAST(sum(live) AS bigint) AS live,
        CAST(sum(CASE WHEN is_gone THEN 0 ELSE lake END) AS bigint) AS lake,
        CAST(sum(noted) AS bigint) AS noted,
        count(*) FILTER (WHERE is_gone) AS gone,
        max(place) FILTER (WHERE is_gone) AS last_gone,
        min(place) FILTER (WHERE difference IS NOT NULL) AS low,
        max(place) FILTER (WHERE difference IS NOT NULL) AS high,
        min(place || difference) FILTER (WHERE difference <> '') AS difference
    FROM judged GROUP BY floor(ms / {width_ms}) ORDER BY min(place)
"""
"""By span of time: the entries of both sides, and the first that differs.

Deletions in the stream may be accepted: what only the lake has is then gone, and no difference.
"""


@click.command(
    help="""Compare streams with the lake: count and hash of the entries, range by range.

    Compared is what both have: from the stream's first entry to the last one that was archived.
    The answer names the first range that differs, and the first entry in it. Ends with 1 if one
    does. What the lake has forgotten is counted, and is no difference.

    \b
    Before a trim:        headgate-pipeline verify --streams orders --lake lake
    If some are deleted:  headgate-pipeline verify --streams orders --lake lake --allow-deleted
    """
)
@options("streams", "pattern", "lake", "master", "verbose", "on_spark")
@click.option(
    "--allow-deleted",
    is_flag=True,
    help="Accept entries in the lake only, as far as the stream says that entries were deleted.",
)
def main(flags: Flags, *, allow_deleted: bool) -> None:
    """Verify the lake."""
    lake = Lake(flags.lake)
    with flags.client() as client:
        rows = _verdicts(flags, lake, client, allow_deleted=allow_deleted)
    answer(rows, as_json=flags.as_json)
    wrong = [row for row in rows if row["verdict"] != "equal"]
    if wrong:
        raise click.ClickException("; ".join(f"{row['stream']}: {row['verdict']}" for row in wrong))


def _verdicts(
    flags: Flags, lake: Lake, client: Client, *, allow_deleted: bool
) -> list[dict[str, object]]:
    streams = flags.chosen(client)
    plans = flags.plans(client, streams)
    total = sum(plan.backlog for plan in plans.values())
    way = way_of(flags, "verify", total)
    progress = ProgressLine("verify", total)
    rows = []
    for stream in streams:
        plan, held = plans[stream], lake.held(stream)
        common = common_range(plan, held)
        if common is None:
            rows.append(_row(stream, Comparison(0, _without_common(plan, held))))
            continue
        begin, end = (parse_id(edge).ms for edge in common)
        width_ms = max(1, -(-(end - begin + 1) // _RANGES))
        deleted = partial(deletions, client, lake, plan) if allow_deleted else None
        comparison = compare(way, flags, lake, stream, *common, width_ms=width_ms, deleted=deleted)
        rows.append(_row(stream, comparison, *common))
        progress.advance(plans[stream].backlog)
    progress.finish()
    return rows


def _without_common(plan: Plan, held: Held | None) -> str:
    """Return the verdict where stream and lake have no range in common."""
    if held is None or plan.epoch != held.epoch:
        return "not archived"
    is_retired = not is_before(held.after, held.to)
    return "equal" if plan.first_id is None or is_retired else "not archived"


def compare(
    way: Way,
    flags: Flags,
    lake: Lake,
    stream: str,
    after: str,
    to: str,
    *,
    width_ms: int,
    deleted: Callable[[], Deletions] | None = None,
) -> Comparison:
    """Compare (after, to] of a stream with the lake, in spans of `width_ms`.

    `deleted` returns the stream's deletions; None: deleted entries are a difference.
    """
    spans = _spans(way, flags, lake, stream, after, to, width_ms, deleted is not None)
    entries, gone, noted = (sum(span[name] for span in spans) for name in ("live", "gone", "noted"))
    if deleted is not None and gone:
        last_id = id_of(max(span["last_gone"] for span in spans if span["gone"]))
        if refusal := deleted().refusal(gone, last_id):
            return Comparison(entries, f"differs: {refusal}", 0, noted)
    for span in spans:
        difference = _difference(span)
        if difference is not None or span["live"] != span["lake"]:
            verdict = (
                f"differs from {id_of(span['low'])} to {id_of(span['high'])}:"
                f" live {span['live']}, lake {span['lake']};"
                f" {difference or 'an entry is in the lake twice'}"
            )
            return Comparison(entries, verdict, gone, noted)
    return Comparison(entries, "equal", gone, noted)


def missing(way: Way, flags: Flags, lake: Lake, stream: str, after: str, to: str) -> str | None:
    """Return an id that the lake lacks, or has with other fields; forgotten ones do not count."""
    for span in _spans(way, flags, lake, stream, after, to, _WIDEST_MS, is_gone_accepted=True):
        if (difference := _difference(span)) is not None:
            return difference.partition(" ")[0]
    return None


def _spans(
    way: Way,
    flags: Flags,
    lake: Lake,
    stream: str,
    after: str,
    to: str,
    width_ms: int,
    is_gone_accepted: bool,
) -> list[dict[str, Any]]:
    """Return what both sides have of a range, by spans of time; see `_SPANS`."""
    noted = forgotten(lake, stream)
    theirs = [range_of(flags, stream, after, to)]
    ours = [Archived(lake, {stream: (after, to)})]
    spans: list[dict[str, Any]] = way.table(
        _SPANS,
        width_ms=width_ms,
        is_gone_accepted=is_gone_accepted,
        theirs=way.rows(theirs, partial(_side_of, side="live", noted=noted), _SIDE),
        ours=way.rows(ours, partial(_side_of, side="lake", noted=noted), _SIDE),
    ).to_pylist()
    return spans


def _side_of(
    batches: Iterable[pa.RecordBatch], side: str, noted: pa.Array
) -> Iterator[pa.RecordBatch]:
    """Yield entries with the side they are on; those that the lake has forgotten are noted."""
    for batch in batches:
        ids = batch.column("id")
        sides = pc.if_else(pc.is_in(ids, noted), f"{side}, noted", side)
        columns = [places_of(ids), batch.column("ms"), batch.column("fields"), sides]
        yield pa.RecordBatch.from_arrays(columns, schema=_SIDE)


def _difference(span: Mapping[str, Any]) -> str | None:
    """Return the first entry of a span that differs, and how."""
    if span["difference"] is None:
        return None
    place, _, what = span["difference"].partition(" ")
    return f"{id_of(place)} {what}"


def _row(
    stream: str, comparison: Comparison, after: str | None = None, to: str | None = None
) -> dict[str, object]:
    counts = comparison._asdict()
    verdict = counts.pop("verdict")
    return {"stream": stream, "after": after, "to": to, **counts, "verdict": verdict}
