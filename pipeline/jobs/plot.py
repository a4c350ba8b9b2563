"""A picture of a stream, as one HTML file that needs nothing else."""

from __future__ import annotations

import html
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headgate.pipeline.jobs.entries import count, pairs, read
from headgate.pipeline.jobs.flags import Flags, options
from headgate.pipeline.jobs.lag import group_rows
from headgate.pipeline.jobs.report import ProgressLine, answer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_POINTS = 400
_WIDTHS_MS = (
    *(1, 2, 5, 10, 20, 50, 100, 200, 500),
    *(1_000 * n for n in (1, 2, 5, 10, 15, 30)),
    *(60_000 * n for n in (1, 2, 5, 10, 15, 30)),
    *(3_600_000 * n for n in (1, 2, 3, 6, 12)),
    *(86_400_000 * n for n in (1, 2, 7, 14, 28, 91, 182, 365)),
)
_COLOURS = ("#3b82f6", "#f59e0b", "#10b981", "#ef4444", "#8b5cf6", "#ec4899", "#14b8a6")

_PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
  :root {{ color-scheme: light dark;
    --ground: #fff; --text: #1f2937; --soft: #6b7280; --line: #e5e7eb }}
  @media (prefers-color-scheme: dark) {{
    :root {{ --ground: #111827; --text: #e5e7eb; --soft: #9ca3af; --line: #374151 }}
  }}
  body {{ font: 15px/1.5 system-ui, sans-serif;
    margin: 2rem auto; max-width: 72rem; padding: 0 1rem;
    background: var(--ground); color: var(--text) }}
  h1 {{ font-size: 1.5rem; margin: 0 }}
  p {{ color: var(--soft); margin: .25rem 0 1rem }}
  section {{ border-top: 1px solid var(--line); padding-top: .75rem }}
</style>
<script>{script}</script>
</head>
<body>
<h1>{title}</h1>
<p>{facts}</p>
{figures}
<script>
  const dark = matchMedia("(prefers-color-scheme: dark)");
  function paint() {{
    const text = dark.matches ? "#e5e7eb" : "#1f2937";
    const line = dark.matches ? "#374151" : "#e5e7eb";
    for (const figure of document.querySelectorAll(".plotly-graph-div"))
      Plotly.relayout(figure, {{
        "font.color": text, "xaxis.gridcolor": line, "yaxis.gridcolor": line,
        "xaxis.linecolor": line, "yaxis.linecolor": line,
      }});
  }}
  dark.addEventListener("change", paint);
  paint();
</script>
</body>
</html>
"""


@click.command(
    help="""Draw rates, sizes and times of streams into one HTML file.

    \b
    A picture:   headgate-pipeline plot --streams orders --out orders.html
    All of it:   headgate-pipeline plot --streams orders --lake lake --out orders.html
    """
)
@options("streams", "pattern", "lake?", "master")
@click.option("--out", default="headgate.html", show_default=True, help="The file to write.")
def main(flags: Flags, *, out: str) -> None:
    """Draw streams."""
    if not Path(out).absolute().parent.is_dir():
        raise click.ClickException(f"there is no directory for {out}")
    with flags.client() as client:
        streams = flags.chosen(client)
        plans = flags.plans(client, streams)
        total = count(client, flags, plans)
        groups = [row for stream in streams for row in group_rows(client, stream)]
    spark = flags.spark("plot")
    progress = ProgressLine("plot", total)
    entries = read(spark, flags, plans).cache()
    bounds = entries.selectExpr("count(*) n", "min(ms) low", "max(ms) high").first()
    if bounds is None or not bounds["n"]:
        raise click.ClickException(f"{', '.join(streams)}: there is no entry to draw")
    width_ms = width_of(bounds["high"] - bounds["low"])
    table = transform(entries, width_ms).orderBy("time", "stream").cache()
    drawn = figures(table, width_ms)
    if groups:
        drawn.append(_groups(spark.createDataFrame(_counts(groups))))
    progress.advance(bounds["n"])
    progress.finish()
    title = ", ".join(streams) if len(streams) <= 5 else f"{len(streams)} streams"
    facts = f"{bounds['n']:,} entries, {span_text(width_ms)} a point, times in UTC"
    Path(out).write_text(page(f"Streams: {title}", facts, drawn), encoding="utf-8")
    answer([{"entries": bounds["n"], "out": out}], as_json=flags.as_json)


def transform(entries: DataFrame, width_ms: int) -> DataFrame:
    """Return for each stream and span of time: rate, sizes, and times between entries.

    Args:
        entries: rows of the lake or of a stream.
        width_ms: length of a span.
    """
    from pyspark.sql import Window  # noqa: PLC0415
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    sizes = F.transform(
        pairs(entries), lambda pair: F.octet_length(pair["name"]) + F.octet_length(pair["value"])
    )
    in_order = Window.partitionBy("stream").orderBy("ms", F.col("seq").asc_nulls_last())
    before = F.lag("ms").over(in_order)
    return (
        entries.select(
            "stream",
            "ms",
            F.aggregate(sizes, F.lit(0).cast("bigint"), lambda a, b: a + b).alias("size"),
            (F.col("ms") - before).alias("gap_ms"),
        )
        .groupBy("stream", (F.floor(F.col("ms") / width_ms) * width_ms).alias("begin_ms"))
        .agg(
            (F.count("*") * 1000 / F.lit(width_ms)).alias("entries_per_s"),
            (F.sum("size") * 1000 / F.lit(width_ms)).alias("bytes_per_s"),
            F.avg("size").alias("entry_bytes"),
            F.percentile_approx("gap_ms", 0.5).alias("gap_p50_ms"),
            F.percentile_approx("gap_ms", 0.99).alias("gap_p99_ms"),
        )
        .withColumn("time", F.timestamp_millis("begin_ms"))
    )


def figures(table: DataFrame, width_ms: int) -> list[Any]:
    """Return the pictures, drawn by Spark's own plotting."""
    span = f"per {span_text(width_ms)}"
    drawn = []
    for column, title, axis, unit in (
        ("entries_per_s", "Rate", "entries per second", " /s"),
        ("bytes_per_s", "Volume: names and values of fields", "bytes per second", "B/s"),
        ("entry_bytes", f"Size of an entry, average {span}", "bytes", "B"),
        ("gap_p50_ms", f"Time between entries, median {span}", "milliseconds", " ms"),
        ("gap_p99_ms", f"Time between entries, 99th percentile {span}", "milliseconds", " ms"),
    ):
        figure = table.plot.line(x="time", y=column, color="stream")
        figure.update_traces(mode="lines+markers", marker_size=4)
        figure.update_layout(title=title, xaxis_title="time of the id (UTC)", yaxis_title=axis)
        figure.update_yaxes(rangemode="tozero", ticksuffix="")
        figure.update_traces(hovertemplate=f"%{{x}}<br>%{{y:,.3s}}{unit}")
        drawn.append(figure)
    return drawn


def _counts(groups: list[dict[str, object]]) -> list[tuple[str, object, object]]:
    return [(f"{row['stream']} / {row['group']}", row["lag"], row["pending"]) for row in groups]


def _groups(table: DataFrame) -> Any:
    named = table.toDF("name", "lag", "pending")
    figure = named.plot.bar(x="name", y=["lag", "pending"])
    figure.update_layout(
        title="Groups now: entries not delivered yet (lag), and not acknowledged (pending)",
        xaxis_title="stream / group",
        yaxis_title="entries",
        barmode="group",
    )
    return figure


def page(title: str, facts: str, drawn: list[Any]) -> str:
    """Return the page: figures, and the script that draws them, in one text."""
    from plotly.offline import get_plotlyjs  # noqa: PLC0415

    parts = []
    for figure in drawn:
        figure.update_layout(
            template="none",
            height=320,
            margin={"l": 70, "r": 20, "t": 50, "b": 50},
            paper_bgcolor="rgba(0,0,0,0)",
            plot_bgcolor="rgba(0,0,0,0)",
            colorway=_COLOURS,
            legend={"orientation": "h", "y": 1.15, "x": 1, "xanchor": "right", "title": ""},
            title_x=0,
            title_xref="paper",
            font={"family": "system-ui, sans-serif", "size": 13},
        )
        for number, trace in enumerate(figure.data):
            colour = _COLOURS[number % len(_COLOURS)]
            trace.update(marker_color=colour)
            if trace.type == "scatter":
                trace.update(line_color=colour, line_width=1.5)
        figure.update_xaxes(automargin=True, showline=True)
        figure.update_yaxes(automargin=True)
        body = figure.to_html(
            full_html=False, include_plotlyjs=False, config={"displayModeBar": False}
        )
        parts.append(f"<section>{body}</section>")
    return _PAGE.format(
        title=html.escape(title),
        facts=html.escape(facts),
        script=get_plotlyjs(),
        figures="\n".join(parts),
    )


def width_of(length_ms: int) -> int:
    """Return a round length of a span, so that there are not too many points."""
    return next((width for width in _WIDTHS_MS if length_ms // width <= _POINTS), _WIDTHS_MS[-1])


def span_text(width_ms: int) -> str:
    """Return a length of time as people say it."""
    for unit, length in (("day", 86_400_000), ("hour", 3_600_000), ("min", 60_000), ("s", 1000)):
        if width_ms % length == 0:
            return f"{width_ms // length} {unit}"
    return f"{width_ms} ms"
