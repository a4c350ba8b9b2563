"""Entries that were delivered and not acknowledged."""

from typing import Annotated, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from headgate.app.wire.schemas.deliveries import LastError
from headgate.app.wire.schemas.values import IdText


class PendingEntry(TypedDict):
    """An entry that was delivered and not acknowledged."""

    id: IdText
    consumer: Annotated[str | None, Field(description="Owner; null: none, it was released.")]
    idle_ms: Annotated[
        int | None, Field(description="Since its last delivery; null: nobody holds it.")
    ]
    deliveries: int
    delay_ms: NotRequired[Annotated[int, Field(description="Nobody gets it for so long.")]]
    last_error: NotRequired[LastError]
    waits_for: NotRequired[
        Annotated[
            IdText,
            Field(description="The entry with the same key that is to be settled before it."),
        ]
    ]


class PendingEntries(TypedDict):
    """Pending entries, by id."""

    pending: list[PendingEntry]


class ConsumerPending(TypedDict):
    """The number of a consumer's pending entries."""

    name: str
    pending: int


class PendingSummary(TypedDict):
    """The pending entries of a group, summed up with their consumers."""

    count: int
    min_id: IdText | None
    max_id: IdText | None
    consumers: Annotated[
        list[ConsumerPending], Field(description="Consumers that hold entries, by name.")
    ]
    consumers_left_out: Annotated[
        int, Field(description="Number of other consumers that hold entries.")
    ]
