"""Limits: each is defined here once, by its name and unit, type, default, range and text.

Settings inherit these fields, so an operator can set them. `Limits` inherits them too, so a client
is told which apply.
"""

from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from headgate.app.backends.port import Ability, Durable
from headgate.engine.limits import (
    CONSUMERS_MAX,
    GROUPS_MAX,
    PATTERN_BYTES_MAX,
    PRODUCERS_MAX,
    SCHEDULES_MAX,
    STREAMS_MAX,
    TIMED_MAX,
    WAITERS_MAX,
)


class GatewayLimits(BaseModel):
    """The bounds of the gateway as a whole, and of one request."""

    body_bytes_max: int = Field(16 * 2**20, ge=1024, le=2**30, description="Largest request body.")
    disk_bytes_max: int | None = Field(
        None, ge=2**20, description="Size of all files from which appends are refused; null: any."
    )
    disk_free_bytes_min: int = Field(
        64 * 2**20, ge=2**20, description="Free bytes of the disk below which appends are refused."
    )
    memory_bytes_max: int | None = Field(
        None,
        ge=2**20,
        description="Memory of the streams: entries beyond it are on disk alone; "
        "70 % of what the machine or the cgroup has, unless it is set.",
    )
    streams_max: int = Field(STREAMS_MAX, ge=1, description="Streams.")
    groups_max: int = Field(GROUPS_MAX, ge=1, description="Groups of one stream.")
    consumers_max: int = Field(CONSUMERS_MAX, ge=1, description="Consumers of one group.")
    producers_max: int = Field(
        PRODUCERS_MAX,
        ge=1,
        description="Producers of one stream whose idempotency keys are remembered.",
    )
    schedules_max: int = Field(SCHEDULES_MAX, ge=1, description="Schedules of all streams.")
    timed_max: int = Field(
        TIMED_MAX, ge=1, description="Entries of one stream with a delay or a deadline."
    )
    staged_bytes_max: int = Field(
        2 * 2**30, ge=1024, description="Chunks of batches that are not committed yet."
    )
    staged_ttl_ms: int = Field(
        3_600_000, ge=1000, description="A batch that gets no chunk for so long is forgotten."
    )
    # At least what a request asks for that does not say how much.
    read_entries_max: int = Field(10_000, ge=100, description="Entries in one JSON answer.")
    read_bytes_max: int = Field(
        16 * 2**20, ge=1024, description="Names and values in one answer, about."
    )
    ids_max: int = Field(
        10_000, ge=100, description="Ids in one ack, nack, extend, claim or delete."
    )
    wait_ms_max: int = Field(60_000, ge=0, description="Longest wait of a long poll.")
    waiters_max: int = Field(WAITERS_MAX, ge=1, description="Reads blocked at once.")
    sockets_max: int | None = Field(
        None,
        ge=16,
        description="Connections of any kind at once; as many as open files allow, unless fewer "
        "are set.",
    )
    arriving_bytes_max: int = Field(
        256 * 2**20, ge=2**20, description="Request bodies that arrive at once, together."
    )
    unsent_bytes_max: int = Field(
        256 * 2**20, ge=2**20, description="Bytes of answers that clients have not taken, together."
    )
    connections_max: int = Field(10_000, ge=1, description="Event streams and WebSockets at once.")


class SocketLimits(BaseModel):
    """The bounds of one WebSocket."""

    subscriptions_max: int = Field(100, ge=1, description="Subscriptions of one WebSocket.")
    patterns_max: int = Field(
        16, ge=1, description="Those of them that follow all streams that match a pattern."
    )
    credit_max: int = Field(65_536, ge=64, description="Most credit a subscription may hold.")
    frame_bytes_max: int = Field(
        2**20, ge=1024, description="Largest WebSocket frame, once inflated."
    )
    batch_entries_max: int = Field(10_000, ge=1, description="Entries in one batch.")
    send_ms_max: int = Field(
        10_000, ge=100, description="Time until a client that takes nothing is cut off."
    )
    connection_ms_max: int | None = Field(
        None,
        ge=1000,
        description="After so long a connection is told to come back; null: it may stay.",
    )


class ConnectionLimits(SocketLimits):
    """The bounds of one connection, an event stream or a WebSocket."""

    heartbeat_ms: int = Field(15_000, ge=100, description="Silence on an event stream at most.")
    ping_interval_ms: int = Field(
        20_000, ge=100, description="Interval between pings of a WebSocket."
    )
    pong_wait_ms: int = Field(10_000, ge=100, description="Time for the answer to a ping.")


class ChosenLimits(ConnectionLimits, GatewayLimits):
    """The limits that an operator may choose. The fields of `GatewayLimits` come first."""


DEFAULTS = ChosenLimits()
"""The limits where nothing is chosen."""


def _describe_in_force(schema: dict[str, Any]) -> None:
    """Describe limits that apply: each is required, and no default is mentioned."""
    limits = schema["properties"]
    for limit in limits.values():
        for part in (limit, *limit.get("anyOf", ())):
            part.pop("default", None)
            part.pop("minimum", None)
    schema["required"] = list(limits)


IN_FORCE = ConfigDict(frozen=True, json_schema_extra=_describe_in_force)
"""Of a model that tells which limits hold."""


def _of_the_machine(name: str) -> Any:
    """Return the field of a limit that depends on the machine unless the operator sets it."""
    return Field(description=ChosenLimits.model_fields[name].description)


class Rule(StrEnum):
    """A rule that only the gateway's own engine knows."""

    FAIR_GROUPS = "fair_groups"  # `fair_field`, `weights` and `priority_field` of a policy
    TABLES = "tables"  # the latest entry of each key of a stream
    PATTERN_GROUPS = "pattern_groups"  # one group over all streams that match a pattern


class Limits(ChosenLimits):
    """The bounds of this gateway."""

    model_config = IN_FORCE

    memory_bytes_max: int = _of_the_machine("memory_bytes_max")
    sockets_max: int = _of_the_machine("sockets_max")
    pattern_bytes_max: int = Field(
        PATTERN_BYTES_MAX, description="Length of a pattern that streams are followed by."
    )
    abilities: list[Ability] = Field(
        description="Abilities of the backend, of those that not every backend has. An operation "
        "that needs a missing one answers 501 `not_supported`."
    )
    rules: list[Rule] = Field(
        description="Rules that only the gateway's own engine knows. Over Redis or Valkey there "
        "are none, and what needs one answers 501 `not_supported`."
    )
    durable: Durable = Field(
        description="Durability of an answered change: `nothing` but memory, the disk "
        "within a second (`everysec`), the `disk`, or also the disk of a `replica`."
    )
