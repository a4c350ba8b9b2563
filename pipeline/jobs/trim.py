"""Trim from streams what the lake verifiably holds."""

from __future__ import annotations

import os
import time

import click

from headgate.client import Plan
from headgate.client.blocking import Client
from headgate.pipeline.comparison import common_range
from headgate.pipeline.computing.ways import way_of
from headgate.pipeline.jobs.verify import missing
from headgate.pipeline.lake import Held, Lake
from headgate.pipeline.location import is_bucket
from headgate.pipeline.offsets import (
    SEQ_MAX,
    Id,
    before_ms,
    earlier,
    is_before,
    just_before,
    later,
    parse_id,
)
from headgate.pipeline.terminal.flags import Duration, Flags, options
from headgate.pipeline.terminal.report import ProgressLine, answer


@click.command(
    help="""Take from streams what the lake verifiably holds.

    An entry goes only if the lake has it with the same fields, or has forgotten it; every group of
    the stream is through with it; and it is older than --keep. Ends with 1 if the lake lacks an
    entry that it says it holds; nothing of that stream is taken then.

    With --superseded nothing is trimmed: the gateway is told up to when entries are archived
    (`archived_until_ms`), so that it may remove those that a later one with their key supersedes.
    It spares what groups need by itself.

    \b
    Every hour:   headgate-pipeline trim --streams orders --lake lake --keep 1d
    Of a table:   headgate-pipeline trim --streams stock --lake lake --superseded
    """
)
@options("streams", "pattern", "lake", "master", "verbose", "on_spark", "dry_run")
@click.option("--keep", default="0s", type=Duration(ms_min=0), help="Younger entries stay: 6h, 7d.")
@click.option("--past-groups", is_flag=True, help="Take entries that groups have not settled, too.")
@click.option(
    "--past-retention", is_flag=True, help="Take entries that `retention` took from the lake, too."
)
@click.option(
    "--superseded", is_flag=True, help="Let the gateway remove superseded entries of a table."
)
def main(
    flags: Flags, *, keep: int, past_groups: bool, past_retention: bool, superseded: bool
) -> None:
    """Trim streams."""
    lake = Lake(flags.lake)
    with flags.client() as client:
        streams = flags.chosen(client)
        plans = flags.plans(client, streams)
        total = sum(plan.backlog for plan in plans.values())
        way = way_of(flags, "trim", total)
        progress = ProgressLine("trim", len(streams), "streams")
        rows: list[dict[str, object]] = []
        for stream in streams:
            held = lake.held(stream)
            is_past = past_groups or superseded
            to, why = _limit(client, held, plans[stream], keep, past_groups=is_past)
            if held is not None and not past_retention and _begins_before(plans[stream], held):
                to, why = None, f"the lake begins behind {held.after}: see --past-retention"
            row: dict[str, object] = {"stream": stream, "to": to, "removed": 0, "verdict": why}
            rows.append(row)
            progress.advance(1)
            if to is None:
                continue
            lost = None
            after = _verified(client, held, plans[stream], superseded=superseded)
            if after is not None and is_before(after, to):
                lost = missing(way, flags, lake, stream, after, to)
            if lost is not None:
                row["verdict"] = f"kept: the lake lacks {lost}"
            elif superseded and not flags.dry_run:
                _sync(lake)
                client.stream(stream).update({"archived_until_ms": parse_id(to).ms})
            elif not flags.dry_run:
                row["removed"] = _trim(client, lake, stream, to)
        progress.finish()
    answer(rows, as_json=flags.as_json)
    wrong = [row for row in rows if str(row["verdict"]).startswith("kept: the lake lacks")]
    if wrong:
        raise click.ClickException(f"{wrong[0]['stream']}: {wrong[0]['verdict']}")


def _limit(
    client: Client, held: Held | None, plan: Plan, keep_ms: int, *, past_groups: bool
) -> tuple[str | None, str]:
    """Return the last entry that may go, if any, and the reason why later ones stay."""
    if held is None or plan.epoch != held.epoch or plan.first_id is None:
        return None, "nothing of it is archived"
    if is_before(held.to, plan.first_id):
        return None, "nothing of it is archived"
    to, why = held.to, "up to what is archived"
    if keep_ms:
        young = before_ms(int(time.time() * 1000) - keep_ms)
        if is_before(young, to):
            to, why = young, "the rest is too young"
    if not past_groups:
        for name, settled in settled_by_group(client, plan.stream).items():
            if is_before(settled, to):
                to, why = settled, f"the group {name} is not through with the rest"
    return (to, why) if not is_before(to, plan.first_id) else (None, why)


def _verified(client: Client, held: Held | None, plan: Plan, *, superseded: bool) -> str | None:
    """Return the id up to which nothing is to be verified; None: nothing is at all.

    What was released to be compacted was verified then, and may be removed at any moment.
    """
    common = common_range(plan, held)
    if common is None:
        return None
    until_ms = client.stream(plan.stream).info()["config"]["archived_until_ms"]
    return later(common[0], before_ms(until_ms)) if superseded and until_ms else common[0]


def _begins_before(plan: Plan, held: Held) -> bool:
    is_same = plan.epoch == held.epoch and plan.first_id is not None
    return is_same and not is_before(held.after, plan.first_id or held.after)


def settled_by_group(client: Client, stream: str) -> dict[str, str]:
    """Return per group the id up to which all entries were delivered and settled."""
    settled_ids = {}
    for group in client.stream(stream).groups():
        name, settled = group["name"], group["last_id"]
        summary = client.group(stream, name).pending_summary()
        if summary["min_id"] is not None:
            settled = earlier(settled, str(just_before(parse_id(summary["min_id"]))))
        settled_ids[name] = settled
    return settled_ids


def _sync(lake: Lake) -> None:
    if not is_bucket(lake.path):
        os.sync()  # `deltalake` leaves it to the system when files reach the disk


def _trim(client: Client, lake: Lake, stream: str, to: str) -> int:
    _sync(lake)
    last = parse_id(to)
    next_id = Id(last.ms, last.seq + 1) if last.seq < SEQ_MAX else Id(last.ms + 1, 0)
    return client.stream(stream).trim(min_id=str(next_id))
