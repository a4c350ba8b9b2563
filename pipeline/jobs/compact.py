"""Merge small files of the lake into large ones, in order, and delete unneeded files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import click
import pyarrow as pa

from headgate.pipeline.lake import RETENTION_H_MIN, Lake
from headgate.pipeline.lakefile import WRITTEN, LakeFile, bins_of, files_of, merge_files
from headgate.pipeline.terminal.flags import Duration, Flags, options
from headgate.pipeline.terminal.report import ProgressLine, answer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Bin = Sequence[LakeFile]
Merge = Callable[[Lake, Sequence[Bin], int], list[LakeFile]]

_BINS_AT_ONCE = 16  # files that are written before a commit
_MIB = 2**20
_HOUR_MS = 3_600_000


@click.command(
    help="""Make large files of small ones in the lake, each stream and date in order.

    Rows stay the same rows, and a running archive may go on writing. Files that were replaced are
    kept for those who still read them, and deleted after --retention.

    \b
    Every night:   headgate-pipeline compact --lake lake
    """
)
@options("lake", "streams", "master", "verbose", "on_spark", "dry_run")
@click.option(
    "--file-mb",
    type=click.IntRange(1, 4096),
    default=128,
    show_default=True,
    help="Size of a full file, MiB.",
)
@click.option(
    "--retention", type=Duration(ms_min=RETENTION_H_MIN * _HOUR_MS), default="7d",
    show_default=True, help="Time that replaced files are kept.",
)  # fmt: skip
def main(flags: Flags, *, file_mb: int, retention: int) -> None:
    """Compact the lake."""
    lake = Lake(flags.lake)
    before = lake.files(flags.names() if flags.streams else None)
    bins = bins_by_date(before, file_mb * _MIB)
    if not flags.dry_run and bins:
        entries = sum(file.row_count for files in bins for file in files)
        progress = ProgressLine("compact", entries)
        if flags.fits_into_memory("compact", entries):
            merge: Merge = merged_here
        else:
            merge = partial(merged_on_spark, flags.spark("compact"))
        run(merge, lake, bins, file_mb * _MIB, on_progress=progress.advance)
        progress.finish()
    deleted = lake.vacuum(-(-retention // _HOUR_MS), dry_run=flags.dry_run)
    after = lake.files(flags.names() if flags.streams else None)
    row = {
        "files_before": len(before),
        "files_merged": sum(len(files) for files in bins),
        "files_after": len(after),
        "size_bytes": sum(file.size_bytes for file in after),
        "files_deleted": len(deleted),
    }
    answer([row], as_json=flags.as_json)


def bins_by_date(files: Sequence[LakeFile], file_bytes_max: int) -> list[list[LakeFile]]:
    dates = defaultdict(list)
    for file in files:
        dates[file.stream, file.date].append(file)
    return [merged for files in dates.values() for merged in bins_of(files, file_bytes_max)]


def run(
    merge: Merge,
    lake: Lake,
    bins: Sequence[Bin],
    file_bytes_max: int,
    *,
    on_progress: Callable[[int], None],
) -> None:
    """Merge bins, a few per commit; what was committed stays if another run interferes."""
    for begin in range(0, len(bins), _BINS_AT_ONCE):
        batch = bins[begin : begin + _BINS_AT_ONCE]
        old = [file for files in batch for file in files]
        lake.replace(old, merge(lake, batch, file_bytes_max))
        on_progress(sum(file.row_count for file in old))


def merged_here(lake: Lake, bins: Sequence[Bin], file_bytes_max: int) -> list[LakeFile]:
    paths = pa.RecordBatch.from_pydict({"paths": [[file.path for file in files] for files in bins]})
    return files_of(merge_files([paths], lake.path, file_bytes_max))


def merged_on_spark(
    spark: SparkSession, lake: Lake, bins: Sequence[Bin], file_bytes_max: int
) -> list[LakeFile]:
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415

    task = partial(merge_files, lake=lake.path, file_bytes_max=file_bytes_max)
    bins_paths = [([file.path for file in files],) for files in bins]
    paths = spark.createDataFrame(bins_paths, "paths array<string>").repartition(len(bins))
    return files_of(paths.mapInArrow(task, from_arrow_schema(WRITTEN)).toArrow().to_batches())
