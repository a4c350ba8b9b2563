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

    body_bytes_max: int = Field(
        16 * 2**20, ge=1024, le=2**30, description="Maximum size of a request body."
    )
    disk_bytes_max: int | None = Field(
        None,
        ge=2**20,
        description="Total size of all files at which appends are refused; null: no limit.",
    )
    disk_free_bytes_min: int = Field(
        64 * 2**20, ge=2**20, description="Free disk space below which appends are refused."
    )
    memory_bytes_max: int | None = Field(
        None,
        ge=2**20,
        description="Memory for the streams. Entries beyond it are kept on disk only. Default: 70 "
        "% of the memory of the machine or the cgroup.",
    )
    streams_max: int = Field(STREAMS_MAX, ge=1, description="Maximum number of streams.")
    groups_max: int = Field(GROUPS_MAX, ge=1, description="Maximum number of groups per stream.")
    consumers_max: int = Field(
        CONSUMERS_MAX, ge=1, description="Maximum number of consumers per group."
    )
    producers_max: int = Field(
        PRODUCERS_MAX,
        ge=1,
        description="Maximum number of producers per stream whose idempotency keys are remembered.",
    )
    schedules_max: int = Field(
        SCHEDULES_MAX, ge=1, description="Maximum number of schedules of all streams."
    )
    timed_max: int = Field(
        TIMED_MAX,
        ge=1,
        description="Maximum number of entries per stream with a delay or a deadline.",
    )
    staged_bytes_max: int = Field(
        2 * 2**30,
        ge=1024,
        description="Maximum size of the chunks of batches that are not committed yet.",
    )
    staged_ttl_ms: int = Field(
        3_600_000,
        ge=1000,
        description="Time without a new chunk after which an uncommitted batch is discarded.",
    )
    # At least what a request asks for that does not say how much.
    read_entries_max: int = Field(
        10_000, ge=100, description="Maximum number of entries in one JSON answer."
    )
    read_bytes_max: int = Field(
        16 * 2**20,
        ge=1024,
        description="Approximate maximum size of the names and values in one answer.",
    )
    ids_max: int = Field(
        10_000,
        ge=100,
        description="Maximum number of ids in one ack, nack, extend, claim or delete.",
    )
    wait_ms_max: int = Field(60_000, ge=0, description="Longest wait of a long poll.")
    waiters_max: int = Field(
        WAITERS_MAX, ge=1, description="Maximum number of concurrent blocked reads."
    )
    sockets_max: int | None = Field(
        None,
        ge=16,
        description="Maximum number of concurrent connections of any kind. Default: as many as "
        "the limit on open files allows.",
    )
    arriving_bytes_max: int = Field(
        256 * 2**20, ge=2**20, description="Maximum total size of request bodies that are arriving."
    )
    unsent_bytes_max: int = Field(
        256 * 2**20,
        ge=2**20,
        description="Maximum total size of answers that clients have not yet received.",
    )
    connections_max: int = Field(
        10_000, ge=1, description="Maximum number of concurrent event streams and WebSockets."
    )


class SocketLimits(BaseModel):
    """The bounds of one WebSocket."""

    subscriptions_max: int = Field(
        100, ge=1, description="Maximum number of subscriptions per WebSocket."
    )
    patterns_max: int = Field(
        16, ge=1, description="Maximum number of subscriptions per WebSocket that follow a pattern."
    )
    credit_max: int = Field(65_536, ge=64, description="Maximum credit of a subscription.")
    frame_bytes_max: int = Field(
        2**20, ge=1024, description="Maximum size of a WebSocket frame after decompression."
    )
    batch_entries_max: int = Field(
        10_000, ge=1, description="Maximum number of entries in one batch."
    )
    send_ms_max: int = Field(
        10_000, ge=100, description="Time after which a client that reads nothing is disconnected."
    )
    connection_ms_max: int | None = Field(
        None,
        ge=1000,
        description="Time after which a connection is told to reconnect; null: no limit.",
    )


class ConnectionLimits(SocketLimits):
    """The bounds of one connection, an event stream or a WebSocket."""

    heartbeat_ms: int = Field(
        15_000, ge=100, description="Maximum silence on an event stream before a heartbeat."
    )
    ping_interval_ms: int = Field(
        20_000, ge=100, description="Interval between pings of a WebSocket."
    )
    pong_wait_ms: int = Field(10_000, ge=100, description="Time limit for the answer to a ping.")
    presence_ttl_ms: int = Field(
        10_000,
        ge=100,
        description="Time that a connection stays present after it breaks off or its page is "
        "reloaded.",
    )


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
    """A rule that only the gateway's own engine supports."""

    FAIR_GROUPS = "fair_groups"  # `fair_field`, `weights` and `priority_field` of a policy
    TABLES = "tables"  # the latest entry of each key of a stream
    PATTERN_GROUPS = "pattern_groups"  # one group over all streams that match a pattern


class Limits(ChosenLimits):
    """The limits of this gateway."""

    model_config = IN_FORCE

    memory_bytes_max: int = _of_the_machine("memory_bytes_max")
    sockets_max: int = _of_the_machine("sockets_max")
    pattern_bytes_max: int = Field(
        PATTERN_BYTES_MAX, description="Maximum length of a pattern for following streams."
    )
    abilities: list[Ability] = Field(
        description="Optional abilities that the backend has. An operation that needs a missing "
        "ability answers 501 `not_supported`."
    )
    rules: list[Rule] = Field(
        description="Rules that only the gateway's own engine supports. Over Redis or Valkey the "
        "list is empty, and requests that need a rule answer 501 `not_supported`."
    )
    durable: Durable = Field(
        description="Durability of an answered change: in memory only (`nothing`), on disk within "
        "a second (`everysec`), on disk (`disk`), or also in the bucket (`bucket`) or on the "
        "disk of a replica (`replica`)."
    )
