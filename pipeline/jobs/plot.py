"""A picture of a stream, as one HTML file that needs nothing else."""

from __future__ import annotations

import html
import os
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import click
import plotly.graph_objects as go
import pyarrow as pa
import pyarrow.compute as pc

from headgate.pipeline.computing.entries import POINTS, chosen_by, points_of
from headgate.pipeline.computing.ways import way_of
from headgate.pipeline.jobs.lag import group_rows
from headgate.pipeline.terminal.flags import Flags, options
from headgate.pipeline.terminal.report import ProgressLine, answer

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - a picture of UTC has no zone
_POINTS = 400
_WIDTHS_MS = (
    *(1, 2, 5, 10, 20, 50, 100, 200, 500),
    *(1_000 * n for n in (1, 2, 5, 10, 15, 30)),
    *(60_000 * n for n in (1, 2, 5, 10, 15, 30)),
    *(3_600_000 * n for n in (1, 2, 3, 6, 12)),
    *(86_400_000 * n for n in (1, 2, 7, 14, 28, 91, 182, 365)),
)
_COLOURS = ("#3b82f6", "#f59e0b", "#10b981", "#ef4444", "#8b5cf6", "#ec4899", "#14b8a6")
_BOUNDS = "SELECT count(*) AS entries, min(ms) AS begin_ms, max(ms) AS end_ms FROM {points}"
_SPANS = """
    SELECT
        stream,
        CAST(floor(ms / {width_ms}) * {width_ms} AS bigint) AS begin_ms,
        count(*) * 1000 / {width_ms} AS entries_per_s,
        sum(size_bytes) * 1000 / {width_ms} AS bytes_per_s,
        avg(size_bytes) AS entry_bytes,
        percentile_approx(gap_ms, 0.5) AS gap_p50_ms,
        percentile_approx(gap_ms, 0.99) AS gap_p99_ms
    FROM (SELECT *, ms - lag(ms) OVER (PARTITION BY stream ORDER BY ms) AS gap_ms FROM {points})
    GROUP BY 1, 2 ORDER BY begin_ms, stream
"""

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
{script}
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
    Imported:    headgate-pipeline plot --streams history --time date
    Many:        headgate-pipeline plot --streams orders --script shared --out plots/orders.html

    Ids of entries that were imported say when they were imported. With --time a field says when
    an entry is: ISO 8601, a year, or seconds or milliseconds since 1970.

    The script that draws has 5 MB. It is in the file, or with --script shared once beside all files
    of a folder. Either way a plot opens without a network.
    """
)
@options("streams", "pattern", "lake?", "master", "verbose", "on_spark")
@click.option("--time", metavar="FIELD", help="Draw by the time in this field, and not by ids.")
@click.option("--out", default="headgate.html", show_default=True, help="The file to write.")
@click.option(
    "--script",
    type=click.Choice(["inline", "shared"]),
    default="inline",
    show_default=True,
    help="Have the script that draws in the file, or beside it for all files of its folder.",
)
def main(flags: Flags, *, time: str | None, out: str, script: str) -> None:
    """Draw streams."""
    if not Path(out).absolute().parent.is_dir():
        raise click.ClickException(f"there is no directory for {out}")
    with flags.client() as client:
        streams, total, places = chosen_by(flags, client)
        groups = [row for stream in streams for row in group_rows(client, stream)]
    progress = ProgressLine("plot", total)
    way = way_of(flags, "plot", total, progress)
    points = way.kept(way.rows(places, partial(points_of, time=time), POINTS))
    [bounds] = way.table(_BOUNDS, points=points).to_pylist()
    count_drawn = bounds["entries"]
    width_ms = width_of((bounds["end_ms"] or 0) - (bounds["begin_ms"] or 0))
    table = way.table(_SPANS, points=points, width_ms=width_ms)
    progress.finish()
    where = f"{', '.join(streams)}: there is no entry"
    if not count_drawn:
        raise click.ClickException(
            f"{where} to draw" if time is None or not total else f"{where} with a date in {time!r}"
        )
    drawn = figures(table, width_ms, "time of the id" if time is None else time)
    if groups:
        drawn.append(_groups(groups))
    title = ", ".join(streams) if len(streams) <= 5 else f"{len(streams)} streams"
    facts = f"{count_drawn:,} entries, {span_text(width_ms)} a point, times in UTC"
    if count_drawn < total:
        place = "their ids" if time is None else time
        facts += f"; {total - count_drawn:,} entries without a date in {place} are left out"
    folder = Path(out).parent if script == "shared" else None
    Path(out).write_text(page(f"Streams: {title}", facts, drawn, folder), encoding="utf-8")
    answer([{"entries": count_drawn, "out": out}], as_json=flags.as_json)


def figures(table: pa.Table, width_ms: int, time: str) -> list[go.Figure]:
    span = f"per {span_text(width_ms)}"
    by_stream = [
        (stream, table.filter(pc.equal(table["stream"], stream)))
        for stream in table["stream"].unique().sort().to_pylist()
    ]
    drawn = []
    for column, title, axis, unit in (
        ("entries_per_s", "Rate", "entries per second", " /s"),
        ("bytes_per_s", "Volume: names and values of fields", "bytes per second", "B/s"),
        ("entry_bytes", f"Size of an entry, average {span}", "bytes", "B"),
        ("gap_p50_ms", f"Time between entries, median {span}", "milliseconds", " ms"),
        ("gap_p99_ms", f"Time between entries, 99th percentile {span}", "milliseconds", " ms"),
    ):
        pause_ms = width_ms if column.endswith("_per_s") else None
        figure = go.Figure(
            [
                _line(rows["begin_ms"].to_pylist(), rows[column].to_pylist(), pause_ms, stream)
                for stream, rows in by_stream
            ]
        )
        figure.update_traces(mode="lines+markers", marker_size=4)
        figure.update_layout(
            title=title, xaxis_title=f"{time} (UTC)", yaxis_title=axis, showlegend=True
        )
        figure.update_yaxes(rangemode="tozero", ticksuffix="")
        figure.update_traces(hovertemplate=f"%{{x}}<br>%{{y:,.3s}}{unit}")
        drawn.append(figure)
    return drawn


def _line(
    begins_ms: Sequence[int], values: Sequence[float], pause_ms: int | None, name: str
) -> go.Scatter:
    """Draw values over time; with the width of a span, those in between without entries are 0."""
    points = list(zip(begins_ms, values, strict=True))
    if pause_ms is not None:
        points = with_pauses(points, pause_ms)
    times = [_EPOCH + timedelta(milliseconds=ms) for ms, _ in points]
    return go.Scatter(x=times, y=[value for _, value in points], name=name)


def with_pauses(points: Sequence[tuple[int, float]], width_ms: int) -> list[tuple[int, float]]:
    """Return the points of a line that is 0 in the spans between those that have entries.

    Only the first and the last span of a pause have a point. A line from one entry to the next
    would show entries where there were none.
    """
    drawn = list(points[:1])
    for point in points[1:]:
        pause = range(drawn[-1][0] + width_ms, point[0], width_ms)
        drawn += [(ms, 0.0) for ms in sorted({*pause[:1], *pause[-1:]})]
        drawn.append(point)
    return drawn


def _groups(groups: Sequence[Mapping[str, object]]) -> go.Figure:
    names = [f"{row['stream']} / {row['group']}" for row in groups]
    figure = go.Figure(
        [go.Bar(x=names, y=[row[name] for row in groups], name=name) for name in ("lag", "pending")]
    )
    figure.update_layout(
        title="Groups now: entries not delivered yet (lag), and not acknowledged (pending)",
        xaxis_title="stream / group",
        yaxis_title="entries",
        barmode="group",
    )
    return figure


def page(title: str, facts: str, drawn: list[go.Figure], folder: Path | None = None) -> str:
    """Return an HTML page; the script is embedded, or with `folder` a file there."""
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
        script=_script(folder),
        figures="\n".join(parts),
    )


def _script(folder: Path | None) -> str:
    from plotly.offline import get_plotlyjs, get_plotlyjs_version  # noqa: PLC0415

    if folder is None:
        return f"<script>{get_plotlyjs()}</script>"
    file = folder / f"plotly-{get_plotlyjs_version()}.min.js"
    if not file.exists():
        new = file.with_name(f"{file.name}.{os.getpid()}")
        new.write_text(get_plotlyjs(), encoding="utf-8")
        new.rename(file)  # whole or not at all, whoever else writes it
    return f'<script src="{file.name}"></script>'


def width_of(length_ms: int) -> int:
    return next((width for width in _WIDTHS_MS if length_ms // width <= _POINTS), _WIDTHS_MS[-1])


def span_text(width_ms: int) -> str:
    for unit, length in (("day", 86_400_000), ("hour", 3_600_000), ("min", 60_000), ("s", 1000)):
        if width_ms % length == 0:
            return f"{width_ms // length} {unit}"
    return f"{width_ms} ms"
