"""Histories of the gateway, a stream or a group, as columns: one value for each time."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field
from typing_extensions import TypedDict

Series = list[float | None]
"""A value for each time; null: unknown."""


class _History(TypedDict):
    step_ms: Annotated[int, Field(description="Distance between two times.")]
    times_ms: Annotated[list[int], Field(description="Unix times, each at the end of its step.")]


class GatewaySeries(BaseModel):
    """Series of the gateway, over all its processes."""

    appended: Series = Field(description="Entries appended, by second.")
    delivered: Series = Field(description="Entries sent to readers, by second.")
    acknowledged: Series = Field(description="Entries acknowledged, by second.")
    requests: Series = Field(description="Requests answered, by second.")
    refused: Series = Field(description="Those of them with a status of 4xx.")
    failed: Series = Field(description="Those of them with a status of 5xx.")
    request_ms_p50: Series = Field(
        description="Half of the requests took no longer; without long polls and streams."
    )
    request_ms_p99: Series = Field(description="99 of 100 requests took no longer; likewise.")
    connections_events: Series = Field(description="Event streams that are open.")
    connections_websocket: Series = Field(description="WebSockets that are open.")
    connections_redis: Series = Field(description="Connections of Redis clients.")
    waiters: Series = Field(description="Blocked reads.")
    memory_bytes: Series = Field(description="Memory of the streams, estimated.")
    process_bytes: Series = Field(description="Resident memory of all processes.")
    journal_bytes: Series = Field(description="Size of the journal on disk.")
    cold_bytes: Series = Field(
        description="Entries on disk alone, estimated; a part of the journal."
    )
    dead_bytes: Series = Field(
        description="The rest of the extent files, which rewrites give back once it is much."
    )
    fsync_ms_p99: Series = Field(description="99 of 100 syncs of the journal took no longer.")
    cold_read_ms_p99: Series = Field(description="99 of 100 reads of cold entries took no longer.")
    cold_hit_percent: Series = Field(
        description="Looks at cold entries that found them in memory; null without any."
    )
    loop_delay_ms: Series = Field(description="The longest delay of an event loop.")
    cpu_percent: Series = Field(description="CPU of all processes; 100 is a core.")


class GatewayHistory(_History):
    """The history of the gateway."""

    series: GatewaySeries


class _ObservedHistory(_History):
    observed: Annotated[
        bool,
        Field(
            description="Whether it is observed (settings `observe`, `observed_max`); or no rows."
        ),
    ]


class StreamSeries(BaseModel):
    """Series of a stream."""

    length: Series = Field(description="Entries in it.")
    bytes: Series = Field(description="Memory of its entries, estimated; null at servers.")
    cold_bytes: Series = Field(
        description="Size of its entries on disk alone, estimated; null at servers."
    )
    appended: Series = Field(description="Entries appended, by second.")


class StreamHistory(_ObservedHistory):
    """The history of a stream."""

    series: StreamSeries


class GroupSeries(BaseModel):
    """Series of a group."""

    lag: Series = Field(description="Entries that it has still to be given.")
    pending: Series = Field(description="Entries delivered and not acknowledged.")
    oldest_pending_ms: Series = Field(
        description="Since the last delivery of the entry that a consumer has held longest."
    )
    delivered: Series = Field(description="Entries delivered for the first time, by second.")
    acknowledged: Series = Field(description="Entries acknowledged, by second.")
    redelivered: Series = Field(description="Entries delivered again, by second; null at servers.")


class GroupHistory(_ObservedHistory):
    """The history of a group."""

    series: GroupSeries


class GatewaySample(BaseModel):
    """An event: the newest value of each series of the gateway; null: unknown."""

    time_ms: int
    values: dict[str, float | None]
