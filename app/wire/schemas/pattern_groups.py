"""Groups over patterns: reads of the groups of one name in many streams, and what becomes of it."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, ValidationError
from typing_extensions import TypedDict

from headgate.app.wire.ids import parse_group_start
from headgate.app.wire.names import NameText, check_name
from headgate.app.wire.problems import GatewayError
from headgate.app.wire.schemas.deliveries import Delivery, NackChoices, Settled
from headgate.app.wire.schemas.entries import Flag, Ids, Milliseconds, Request
from headgate.app.wire.schemas.settings import Policy
from headgate.app.wire.schemas.streams import GroupStartText
from headgate.engine.limits import WEIGHTS_MAX
from headgate.engine.replies import GroupState
from headgate.engine.requests.deliveries import MissingGroups as EngineMissingGroups
from headgate.engine.requests.groups import GroupStart

STREAMS_MAX = 1_000
"""Streams whose entries are settled by one request."""


class StreamDelivery(Delivery):
    """An entry of one of several streams that is delivered to a consumer."""

    stream: str


class MissingGroups(Request):
    """How to create the group in matching streams that lack it."""

    start: GroupStartText = "$"
    policy: Policy | None = None

    def to_engine(self) -> EngineMissingGroups:
        policy = None if self.policy is None else self.policy.to_engine()
        start = parse_group_start(self.start, field="/body/create/start")
        return EngineMissingGroups(GroupStart(start), policy)

    @staticmethod
    def wire(create: EngineMissingGroups) -> Any:
        start = "$" if create.start.last_id is None else str(create.start.last_id)
        policy = None if create.policy is None else Policy.wire(create.policy)
        return {"start": start, "policy": policy}


def new_groups_of(text: str, *, pointer: str) -> EngineMissingGroups:
    """Read `MissingGroups` from JSON; GatewayError if it is none."""
    try:
        return MissingGroups.model_validate_json(text).to_engine()
    except ValidationError as error:
        [first, *_] = error.errors(include_url=False, include_input=False)
        place = "".join(f"/{part}" for part in first["loc"])
        raise GatewayError("invalid_request", first["msg"], pointer=f"{pointer}{place}") from None


class StreamIds(Ids):
    """Entry ids of one stream."""

    stream: NameText


StreamIdsList = Annotated[list[StreamIds], Field(max_length=STREAMS_MAX, fail_fast=True)]
Weight = Annotated[int, Field(ge=1, le=WEIGHTS_MAX, strict=True)]
Weights = Annotated[
    dict[str, Weight],
    Field(
        max_length=WEIGHTS_MAX,
        description="Number of entries per turn, by name of the stream. Default: 1.",
    ),
]


def weights_of(weights: Mapping[str, int], *, pointer: str) -> dict[bytes, int]:
    return {check_name(name, pointer=pointer): weight for name, weight in weights.items()}


MaxPending = Annotated[
    int | None,
    Field(
        ge=1,
        strict=True,
        description="Maximum number of entries that the consumer may hold in all streams.",
    ),
]


class ReadGroups(Request):
    """A read as a consumer of a group over a pattern; all parts are optional."""

    limit: Annotated[int, Field(ge=1, strict=True)] = Field(
        10, description="Maximum number of entries."
    )
    wait_ms: Milliseconds = Field(0, description="How long to wait if there are no entries.")
    claim_idle_ms: Milliseconds | None = Field(
        None,
        description="First claim entries that are pending with any consumer and have been idle "
        "for this long.",
    )
    no_ack: Flag = Field(
        False, description="Deliver new entries without requiring acknowledgement."
    )
    max_pending: MaxPending = None
    weights: Weights = Field({})
    create: MissingGroups | None = None
    ack: StreamIdsList = Field([], description="Acknowledge these entries first.")


class GroupsEntries(TypedDict):
    """Entries delivered to a consumer, each with its stream."""

    entries: list[StreamDelivery]
    pending: Annotated[
        int, Field(description="Number of entries that this consumer holds in all streams.")
    ]
    state: Annotated[
        GroupState, Field(description="Whether more entries are available, and if not, why.")
    ]


class EntriesOfStreams(Request):
    """Ids of entries, by stream."""

    entries: StreamIdsList = Field(min_length=1)


class NackOfStreams(NackChoices, EntriesOfStreams):
    """Entries to give back, by stream."""


class SettledStream(TypedDict):
    """Outcomes for one stream, in the order of its ids."""

    stream: str
    results: list[Settled]


class SettledStreams(TypedDict):
    """Outcomes for each stream, in the order of the request."""

    streams: list[SettledStream]
