"""Entries as jobs see them: read from where they are, looked at whichever form they have."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from headgate.client import Cursor, Plan
from headgate.client.blocking import Client
from headgate.pipeline.lake import Lake
from headgate.pipeline.memory.entries import COLUMNS, start_of
from headgate.pipeline.offsets import BEGINNING
from headgate.pipeline.terminal.flags import Flags

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


def read(spark: SparkSession, flags: Flags, plans: Mapping[str, Plan]) -> DataFrame:
    """Return entries of streams: all they have, and with --lake all they ever had.

    Args:
        spark: the session.
        flags: say where the gateway and the lake are.
        plans: how each stream stands, by its name.
    """
    start = start_of(flags, plans)
    reader = flags.source(spark.read)
    if any(after != BEGINNING for after in start.values()):
        reader = reader.option("startingOffsets", json.dumps(start))
    live = reader.load().select(*COLUMNS)
    if not flags.lake:
        return live
    lake = Lake(flags.lake)
    entries = live
    for stream, after in start.items():  # an archive may go on meanwhile: only up to there
        held = lake.read(spark, [stream], to=None if after == BEGINNING else after)
        entries = held.withColumn("fields", pairs(held)).select(*COLUMNS).union(entries)
    return entries


def count(client: Client, flags: Flags, plans: Mapping[str, Plan]) -> int:
    """Return how many entries `read` is to read."""
    start = start_of(flags, plans)
    cursors = [Cursor(stream, after) for stream, after in start.items()]
    held = sum(file.row_count for file in Lake(flags.lake).files(plans)) if flags.lake else 0
    return held + sum(plan.backlog for plan in client.plan(cursors))


def read_range(spark: SparkSession, flags: Flags, stream: str, after: str, to: str) -> DataFrame:
    """Return entries that a stream has: behind `after`, up to and with `to`."""
    reader = flags.source(spark.read, stream)
    reader = reader.option("startingOffsets", json.dumps({stream: after}))
    return reader.option("endingOffsets", json.dumps({stream: to})).load()


def pairs(entries: DataFrame) -> Column:
    """Return the fields as an array of (name, value), in order and with repeats."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    if entries.schema["fields"].dataType.typeName() == "array":
        return F.col("fields")
    return F.transform(
        F.map_entries("fields"),
        lambda pair: F.struct(pair["key"].alias("name"), pair["value"].alias("value")),
    )


def value(pairs_column: Column, name: str | Column) -> Column:
    """Return the value of a field as text: of a repeated name the last; null without it."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    matching = F.filter(pairs_column, lambda pair: pair["name"] == name)
    return F.make_valid_utf8(F.try_element_at(matching, F.lit(-1))["value"].cast("string"))


def texts(pairs_column: Column) -> Column:
    """Return the fields as a map of text: of a repeated name the last one."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    names = F.array_distinct(F.transform(pairs_column, lambda pair: pair["name"]))
    return F.map_from_arrays(names, F.transform(names, lambda name: value(pairs_column, name)))
