"""Lag: entries that have not been delivered to groups yet."""

from __future__ import annotations

import time
from collections.abc import Sequence

import click

from headgate.client.blocking import Client
from headgate.pipeline.offsets import parse_id
from headgate.pipeline.terminal.flags import Flags, options
from headgate.pipeline.terminal.report import answer

_PENDING_MAX = 1000  # the oldest ones stand for all


@click.command(
    help="""How far the groups of streams are behind.

    \b
    lag               entries that were not delivered to the group yet
    pending           delivered and not acknowledged; released: handed back, waiting for a consumer
    oldest_s          age of the oldest pending entry, since it was appended
    idle_s            the longest time since a pending entry was delivered
    deliveries_max    how often a pending entry was delivered at most
    append_to_now_p50_s, _p99_s
                      age of pending entries. An entry that was acknowledged leaves no trace, so
                      this is what is knowable of the time from append to ack: it will be longer.

    No Spark is needed. Ends with 1 if a group's lag is beyond --lag-max.

    \b
    For an alarm:   headgate-pipeline lag --pattern '.*' --lag-max 10000
    """
)
@options("streams", "pattern")
@click.option("--lag-max", type=click.IntRange(0), help="A greater lag is something wrong.")
def main(flags: Flags, *, lag_max: int | None) -> None:
    """Report the lag of groups."""
    with flags.client() as client:
        rows = [row for stream in flags.chosen(client) for row in group_rows(client, stream)]
    answer(rows, as_json=flags.as_json, nothing="no stream has a group")
    late = [row for row in rows if lag_max is not None and (row["lag"] or 0) > lag_max]  # type: ignore[operator]
    if late:
        raise click.ClickException(
            f"{late[0]['group']} of {late[0]['stream']} is {late[0]['lag']} entries behind"
        )


def group_rows(client: Client, stream: str) -> list[dict[str, object]]:
    now_ms = int(time.time() * 1000)
    rows: list[dict[str, object]] = []
    for group in client.stream(stream).groups():
        pending = client.group(stream, group["name"]).pending(limit=_PENDING_MAX)
        ages_s = sorted(max(0.0, (now_ms - parse_id(entry["id"]).ms) / 1000) for entry in pending)
        idles_ms = [entry["idle_ms"] for entry in pending if entry["idle_ms"] is not None]
        rows.append(
            {
                "stream": stream,
                "group": group["name"],
                "lag": group["lag"],
                "pending": group["pending"],
                "released": group["released"],
                "consumers": group["consumers"],
                "oldest_s": ages_s[-1] if ages_s else None,
                "idle_s": max(idles_ms) / 1000 if idles_ms else None,
                "deliveries_max": max((entry["deliveries"] for entry in pending), default=None),
                "append_to_now_p50_s": percentile(ages_s, 50),
                "append_to_now_p99_s": percentile(ages_s, 99),
            }
        )
    return rows


def percentile(values: Sequence[float], percent: int) -> float | None:
    """Return the nearest-rank percentile of sorted values; None if there are none."""
    if not values:
        return None
    return values[min(len(values) - 1, max(0, -(-len(values) * percent // 100) - 1))]
