"""The bounds of the gateway."""

from pydantic import BaseModel, ConfigDict, Field


class Limits(BaseModel):
    """The bounds of this gateway."""

    model_config = ConfigDict(frozen=True)

    body_bytes_max: int = Field(description="Largest request body.")
    batch_entries_max: int = Field(description="Entries in one batch.")
    disk_bytes_max: int | None = Field(
        description="Size of the journal from which appends are refused; null: any."
    )
    disk_free_bytes_min: int = Field(
        description="Free bytes of the disk below which appends are refused."
    )
    memory_bytes_max: int = Field(
        description="Memory of the streams from which appends are refused, or the oldest trimmed."
    )
    streams_max: int = Field(description="Streams.")
    groups_max: int = Field(description="Groups of one stream.")
    consumers_max: int = Field(description="Consumers of one group.")
    producers_max: int = Field(
        description="Producers of one stream whose idempotency keys are remembered."
    )
    staged_bytes_max: int = Field(description="Chunks of batches that are not committed yet.")
    staged_ttl_ms: int = Field(description="A batch that gets no chunk for so long is forgotten.")
    read_entries_max: int = Field(description="Entries in one JSON answer.")
    read_bytes_max: int = Field(description="Names and values in one answer, about.")
    ids_max: int = Field(description="Ids in one ack, nack, extend, claim or delete.")
    wait_ms_max: int = Field(description="Longest wait of a long poll.")
    waiters_max: int = Field(description="Reads blocked at once.")
    sockets_max: int = Field(description="Connections of any kind at once.")
    arriving_bytes_max: int = Field(description="Request bodies that arrive at once, together.")
    unsent_bytes_max: int = Field(description="What clients have not taken of answers, together.")
    connections_max: int = Field(description="Event streams and WebSockets at once.")
    subscriptions_max: int = Field(description="Subscriptions of one WebSocket.")
    connection_ms_max: int | None = Field(
        description="After so long a connection is told to come back; null: it may stay."
    )
    frame_bytes_max: int = Field(description="Largest WebSocket frame, once inflated.")
    credit_max: int = Field(description="Most credit a subscription may hold.")
    heartbeat_ms: int = Field(description="Silence on an event stream at most.")
    ping_interval_ms: int = Field(description="How often a WebSocket is pinged.")
    pong_wait_ms: int = Field(description="How long its answer may take.")
    send_ms_max: int = Field(description="How long a client that takes nothing is kept.")
