"""The lake against the streams: are the same entries in both?"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import click

from headgate.client import Plan
from headgate.client.blocking import Client
from headgate.pipeline.comparison import Comparison, Deletions, common_range, deletions
from headgate.pipeline.erasure import forgotten
from headgate.pipeline.jobs.entries import pairs, read_range
from headgate.pipeline.lake import Held, Lake
from headgate.pipeline.memory import verify as in_memory
from headgate.pipeline.offsets import is_before, just_before, parse_id
from headgate.pipeline.terminal.flags import Flags, options
from headgate.pipeline.terminal.report import ProgressLine, answer

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_RANGES = 256  # per stream: as many rows are compared on the driver


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
    # Both are in memory at once, a stream after the other.
    spark = None if flags.fits_into_memory("verify", total) else flags.spark("verify")
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
        way = in_memory.compare if spark is None else partial(compare, spark)
        deleted = partial(deletions, client, lake, plan) if allow_deleted else None
        comparison = way(flags, lake, stream, *common, width_ms=width_ms, deleted=deleted)
        rows.append(_row(stream, comparison, *common))
        progress.advance(plans[stream].backlog)
    progress.finish()
    return rows


def _without_common(plan: Plan, held: Held | None) -> str:
    """Return the verdict on a stream that has no entry that the lake should have."""
    if held is None or plan.epoch != held.epoch:
        return "not archived"
    is_retired = not is_before(held.after, held.to)
    return "equal" if plan.first_id is None or is_retired else "not archived"


def transform(entries: DataFrame, width_ms: int) -> DataFrame:
    """Return count and hash of entries for each stream and span of time in their ids.

    The hash is a sum over the hashes of the entries, so their order does not matter.

    Args:
        entries: rows of the lake or of a stream.
        width_ms: length of a span.
    """
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    return entries.groupBy("stream", F.floor(F.col("ms") / width_ms).alias("span")).agg(
        F.count("*").alias("entries"),
        F.sum(entry_hash(entries).cast("decimal(38,0)")).alias("hash"),
        F.min_by("id", F.struct("ms", "seq")).alias("first_id"),
        F.max_by("id", F.struct("ms", "seq")).alias("last_id"),
    )


def entry_hash(entries: DataFrame) -> Column:
    """Return the hash of an entry: its id and its fields in order, whichever form they have."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    return F.xxhash64(F.col("id"), pairs(entries))


def compare(
    spark: SparkSession,
    flags: Flags,
    lake: Lake,
    stream: str,
    after: str,
    to: str,
    *,
    width_ms: int,
    deleted: Callable[[], Deletions] | None = None,
) -> Comparison:
    """Compare a range of a stream with the lake.

    Args:
        spark: the session.
        flags: say where the gateway is.
        lake: what it is compared with.
        stream: its name.
        after: exclusive.
        to: inclusive.
        width_ms: length of the spans of time of which the first that differs is named.
        deleted: what the stream says of its deletions, if these are accepted.
    """
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    ours = lake.read(spark, [stream], after=after, to=to)
    theirs = read_range(spark, flags, stream, after, to)
    forgotten_count = deleted_count = 0
    noted = _noted(spark, lake, stream)
    if noted is not None:
        forgotten_count = theirs.join(noted, "id", "left_semi").count()
        theirs, ours = (entries.join(noted, "id", "left_anti") for entries in (theirs, ours))
    if deleted is not None:
        gone = ours.join(theirs.select("id"), "id", "left_anti")
        place = F.struct("ms", F.col("seq").isNull(), "seq")  # null is beyond 63 bits
        last = gone.agg(F.count("*"), F.max_by("id", place))
        [[deleted_count, last_id]] = last.collect()
        if deleted_count and (refusal := deleted().refusal(deleted_count, last_id)):
            return Comparison(theirs.count(), f"differs: {refusal}", 0, forgotten_count)
        ours = ours.join(theirs.select("id"), "id", "left_semi")
    sums = [
        {row["span"]: row.asDict() for row in transform(entries, width_ms).collect()}
        for entries in (theirs, ours)
    ]
    count = sum(span_sum["entries"] for span_sum in sums[0].values())
    for span in sorted(set(sums[0]) | set(sums[1])):
        there, held = sums[0].get(span), sums[1].get(span)
        if there is None or held is None or _sum(there) != _sum(held):
            both = [span_sum for span_sum in (there, held) if span_sum is not None]
            ids = [span_sum[name] for span_sum in both for name in ("first_id", "last_id")]
            low, high = min(ids, key=parse_id), max(ids, key=parse_id)
            first = first_difference(theirs, ours, str(just_before(parse_id(low))), high)
            verdict = (
                f"differs from {low} to {high}: live {there['entries'] if there else 0},"
                f" lake {held['entries'] if held else 0}; {first}"
            )
            return Comparison(count, verdict, deleted_count, forgotten_count)
    return Comparison(count, "equal", deleted_count, forgotten_count)


def _noted(spark: SparkSession, lake: Lake, stream: str) -> DataFrame | None:
    """Return the ids that the lake has forgotten, if there are any."""
    ids = [(entry_id,) for entry_id in forgotten(lake, stream).to_pylist()]
    return spark.createDataFrame(ids, "id string") if ids else None


def first_difference(theirs: DataFrame, ours: DataFrame, after: str, to: str) -> str:
    """Return the first entry that differs between two ranges, with the difference."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    def narrowed(entries: DataFrame) -> DataFrame:
        low, high = parse_id(after).ms, parse_id(to).ms
        return entries.where(f"ms >= {low} AND ms <= {high}").select(
            "id", "ms", "seq", entry_hash(entries).alias("hash")
        )

    joined = (
        narrowed(theirs)
        .alias("live")
        .join(narrowed(ours).alias("lake"), F.col("live.id") == F.col("lake.id"), "full")
    )
    different = (
        joined.where("live.hash IS DISTINCT FROM lake.hash")
        .orderBy(
            F.coalesce(F.col("live.ms"), F.col("lake.ms")),
            F.coalesce(F.col("live.seq"), F.col("lake.seq")).asc_nulls_last(),
        )
        .select(F.col("live.id").alias("live"), F.col("lake.id").alias("lake"))
        .first()
    )
    if different is None:
        return "an entry is in the lake twice"
    if different["lake"] is None:
        return f"{different['live']} is not in the lake"
    if different["live"] is None:
        return f"{different['lake']} is in the lake only"
    return f"{different['live']} has other fields in the lake"


def missing(
    spark: SparkSession, flags: Flags, lake: Lake, stream: str, after: str, to: str
) -> str | None:
    """Return the id of an entry that the lake lacks, or has with other fields.

    What it has forgotten is not lacking.
    """
    theirs = read_range(spark, flags, stream, after, to)
    ours = lake.read(spark, [stream], after=after, to=to)
    absent_all = theirs.select("id", entry_hash(theirs).alias("hash")).join(
        ours.select("id", entry_hash(ours).alias("hash")), ["id", "hash"], "left_anti"
    )
    noted = _noted(spark, lake, stream)
    if noted is not None:
        absent_all = absent_all.join(noted, "id", "left_anti")
    absent = absent_all.first()
    return None if absent is None else str(absent["id"])


def _sum(span_sum: dict[str, object]) -> tuple[object, object]:
    return span_sum["entries"], span_sum["hash"]


def _row(
    stream: str, comparison: Comparison, after: str | None = None, to: str | None = None
) -> dict[str, object]:
    counts = comparison._asdict()
    verdict = counts.pop("verdict")
    return {"stream": stream, "after": after, "to": to, **counts, "verdict": verdict}
