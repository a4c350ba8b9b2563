"""Streams to the lake without Spark: one pass, one commit, of what is there now."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from headgate.client import Plan
from headgate.pipeline.lake import Held, Lake, LakeConflict
from headgate.pipeline.lakefile import LakeFile, files_of, write_rows
from headgate.pipeline.memory.entries import read_live
from headgate.pipeline.offsets import BEGINNING
from headgate.pipeline.terminal.flags import Flags
from headgate.pipeline.terminal.report import ProgressLine

QUERY = "headgate/archive"
"""Writer in the lake's commits: all runs of this file."""


def run(
    flags: Flags,
    lake: Lake,
    plans: Sequence[Plan],
    *,
    allow_gap: bool,
    behind_gaps: Callable[[dict[str, Held]], dict[str, Held]],
    progress: ProgressLine,
) -> None:
    """Archive entries behind the held range of each stream.

    1. Files are written, which belong to no table yet.
    2. What the lake holds has to be what it held before, or another one archives meanwhile.
    3. One commit makes the files part of the table, and notes what the lake holds. If it fails,
       or the process dies before it, nothing has changed.

    Args:
        flags: say where the gateway is.
        lake: where to.
        plans: how far to read each stream, and behind which id.
        allow_gap: go on where entries are gone.
        behind_gaps: leaves out of ranges what was trimmed before it was read.
        progress: counts the entries that are read.

    Raises:
        LakeConflict: another one archives the same streams at this moment.
        DataLoss: entries that were to be archived are gone.
    """
    ranges = {
        plan.stream: Held(plan.epoch, plan.after, plan.end)
        for plan in plans
        if plan.epoch is not None and plan.end != plan.after
    }
    if not ranges:
        return
    batch = lake.next_batch(QUERY)
    before = {stream: lake.held(stream) for stream in ranges}
    held_to = lake.admit(ranges, allow_gap=allow_gap)
    files: list[LakeFile] = []
    for stream, span in ranges.items():
        options = flags.source_options(stream) | {
            "endingOffsets": json.dumps({stream: span.to}),
            "failOnDataLoss": str(not allow_gap).lower(),
        }
        if span.after != BEGINNING:
            options["startingOffsets"] = json.dumps({stream: span.after})
        files += files_of(write_rows(progress.counted(read_live(options)), lake.path, held_to))
    if allow_gap:
        ranges = behind_gaps(ranges)
    is_alone = before == {stream: lake.held(stream) for stream in before}
    if not is_alone or not lake.commit(files, query=QUERY, batch=batch, ranges=ranges):
        raise LakeConflict(f"another one archives the same streams into {lake.path}: try again")
