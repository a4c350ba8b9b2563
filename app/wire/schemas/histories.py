"""Histories of the gateway, a stream or a group, as columns: one value for each time."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field
from typing_extensions import TypedDict

Series = list[float | None]
"""A value for each time; null: unknown."""


class _History(TypedDict):
    step_ms: Annotated[int, Field(description="Time between two values.")]
    times_ms: Annotated[
        list[int], Field(description="Unix times, each at the end of its interval.")
    ]


class GatewaySeries(BaseModel):
    """Series of the gateway, over all its processes."""

    appended: Series = Field(description="Entries appended per second.")
    delivered: Series = Field(description="Entries sent to readers per second.")
    acknowledged: Series = Field(description="Entries acknowledged per second.")
    requests: Series = Field(description="Requests answered per second.")
    refused: Series = Field(description="Requests answered with a status of 4xx, per second.")
    failed: Series = Field(description="Requests answered with a status of 5xx, per second.")
    request_ms_p50: Series = Field(
        description="Median duration of requests, except long polls and streams."
    )
    request_ms_p99: Series = Field(
        description="99th percentile of the duration of requests, except long polls and streams."
    )
    connections_events: Series = Field(description="Open event streams.")
    connections_websocket: Series = Field(description="Open WebSockets.")
    connections_redis: Series = Field(description="Open connections of Redis clients.")
    waiters: Series = Field(description="Blocked reads.")
    memory_bytes: Series = Field(description="Estimated memory of the streams.")
    process_bytes: Series = Field(description="Resident memory of all processes.")
    journal_bytes: Series = Field(description="Size of the journal on disk.")
    cold_bytes: Series = Field(
        description="Estimated size of entries that are only on disk; part of the journal."
    )
    dead_bytes: Series = Field(
        description="Size of dead data in the extent files. Rewrites remove it once there is "
        "enough of it."
    )
    fsync_ms_p99: Series = Field(description="99th percentile of the duration of journal syncs.")
    cold_read_ms_p99: Series = Field(
        description="99th percentile of the duration of reads of cold entries."
    )
    cold_hit_percent: Series = Field(
        description="Percentage of reads of cold entries that were served from memory; null if "
        "there were none."
    )
    loop_delay_ms: Series = Field(description="Longest delay of an event loop.")
    cpu_percent: Series = Field(description="CPU use of all processes; 100 is one core.")


class GatewayHistory(_History):
    """The history of the gateway."""

    series: GatewaySeries


class _ObservedHistory(_History):
    observed: Annotated[
        bool,
        Field(
            description="Whether it is observed (settings `observe`, `observed_max`). If not, "
            "there are no rows."
        ),
    ]


class StreamSeries(BaseModel):
    """Series of a stream."""

    length: Series = Field(description="Number of entries.")
    bytes: Series = Field(description="Estimated memory of the entries; null over Redis or Valkey.")
    cold_bytes: Series = Field(
        description="Estimated size of entries that are only on disk; null over Redis or Valkey."
    )
    appended: Series = Field(description="Entries appended per second.")


class StreamHistory(_ObservedHistory):
    """The history of a stream."""

    series: StreamSeries


class GroupSeries(BaseModel):
    """Series of a group."""

    lag: Series = Field(description="Entries that the group has yet to deliver.")
    pending: Series = Field(description="Entries delivered but not acknowledged.")
    oldest_pending_ms: Series = Field(
        description="Time since the last delivery of the entry that has been held the longest."
    )
    delivered: Series = Field(description="Entries delivered for the first time, per second.")
    acknowledged: Series = Field(description="Entries acknowledged per second.")
    redelivered: Series = Field(
        description="Entries delivered again, per second; null over Redis or Valkey."
    )


class GroupHistory(_ObservedHistory):
    """The history of a group."""

    series: GroupSeries


class GatewaySample(BaseModel):
    """An event: the newest value of each series of the gateway; null: unknown."""

    time_ms: int
    values: dict[str, float | None]
