"""Entries that were delivered and not acknowledged."""

from typing import Self

from pydantic import BaseModel, Field

from headgate.app.wire.names import text_of
from headgate.app.wire.schemas.values import IdText
from headgate.engine.replies import PendingItem as EnginePendingItem


class PendingEntry(BaseModel):
    """An entry that was delivered and not acknowledged."""

    id: IdText
    consumer: str | None = Field(description="Owner; null: none, it was released.")
    idle_ms: int | None = Field(description="Since its last delivery; null: nobody holds it.")
    deliveries: int
    last_error: str | None = Field(
        None,
        description="The error of its last nack that had one.",
        exclude_if=lambda error: error is None,
    )

    @classmethod
    def of(cls, item: EnginePendingItem) -> Self:
        """Return a pending entry as XPENDING lists it."""
        return cls(
            id=str(item.id),
            consumer=None if item.consumer is None else text_of(item.consumer),
            idle_ms=item.idle_ms,
            deliveries=item.delivery_count,
            last_error=None if item.last_error is None else text_of(item.last_error),
        )


class PendingEntries(BaseModel):
    """Pending entries, by id."""

    pending: list[PendingEntry]


class ConsumerPending(BaseModel):
    """The number of a consumer's pending entries."""

    name: str
    pending: int


class PendingSummary(BaseModel):
    """The pending entries of a group, summed up with their consumers."""

    count: int
    min_id: IdText | None
    max_id: IdText | None
    consumers: list[ConsumerPending] = Field(description="Consumers that hold entries, by name.")
    consumers_left_out: int = Field(description="Number of other consumers that hold entries.")
