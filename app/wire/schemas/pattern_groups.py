"""Groups over patterns: reads of the groups of one name in many streams, and what becomes of it."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, ValidationError
from typing_extensions import TypedDict

from headgate.app.wire.ids import parse_group_start
from headgate.app.wire.names import check_name
from headgate.app.wire.problems import GatewayError
from headgate.app.wire.schemas.deliveries import Delivery, NackChoices, Settled
from headgate.app.wire.schemas.entries import Flag, Ids, Milliseconds, Request
from headgate.app.wire.schemas.settings import Policy
from headgate.app.wire.schemas.streams import GroupStartText
from headgate.engine.limits import WEIGHTS_MAX
from headgate.engine.replies import GroupState
from headgate.engine.requests.deliveries import NewGroups as EngineNewGroups
from headgate.engine.requests.groups import GroupStart

STREAMS_MAX = 1_000
"""Streams whose entries are settled by one request."""


class StreamDelivery(Delivery):
    """An entry of one of several streams, handed to a consumer."""

    stream: str


class NewGroups(Request):
    """The groups that are created in matching streams that have none of this name."""

    start: GroupStartText = "$"
    policy: Policy | None = None

    def to_engine(self) -> EngineNewGroups:
        policy = None if self.policy is None else self.policy.to_engine()
        start = parse_group_start(self.start, field="/body/create/start")
        return EngineNewGroups(GroupStart(start), policy)

    @staticmethod
    def wire(create: EngineNewGroups) -> Any:
        start = "$" if create.start.last_id is None else str(create.start.last_id)
        policy = None if create.policy is None else Policy.wire(create.policy)
        return {"start": start, "policy": policy}


def new_groups_of(text: str, *, pointer: str) -> EngineNewGroups:
    """Read `NewGroups` from JSON; GatewayError if it is none."""
    try:
        return NewGroups.model_validate_json(text).to_engine()
    except ValidationError as error:
        [first, *_] = error.errors(include_url=False, include_input=False)
        place = "".join(f"/{part}" for part in first["loc"])
        raise GatewayError("invalid_request", first["msg"], pointer=f"{pointer}{place}") from None


class StreamIds(Ids):
    """Entry ids of one stream."""

    stream: str


StreamIdsList = Annotated[list[StreamIds], Field(max_length=STREAMS_MAX, fail_fast=True)]
Weight = Annotated[int, Field(ge=1, le=WEIGHTS_MAX, strict=True)]
Weights = Annotated[
    dict[str, Weight],
    Field(
        max_length=WEIGHTS_MAX,
        description="Entries of a stream in each of its turns, by name; 1 for all others.",
    ),
]


def weights_of(weights: Mapping[str, int], *, pointer: str) -> dict[bytes, int]:
    return {check_name(name, pointer=pointer): weight for name, weight in weights.items()}


MaxPending = Annotated[
    int | None,
    Field(ge=1, strict=True, description="Entries the consumer may hold in all of the streams."),
]


class ReadGroups(Request):
    """A read as a consumer of a group over a pattern; every part may be left out."""

    limit: Annotated[int, Field(ge=1, strict=True)] = Field(10, description="Entries at most.")
    wait_ms: Milliseconds = Field(0, description="Time to wait if there is nothing.")
    claim_idle_ms: Milliseconds | None = Field(
        None, description="First take entries pending with anybody and idle for so long."
    )
    no_ack: Flag = Field(False, description="New entries need no acknowledgement.")
    max_pending: MaxPending = None
    weights: Weights = Field({})
    create: NewGroups | None = None
    ack: StreamIdsList = Field([], description="Acknowledge these first.")


class GroupsEntries(TypedDict):
    """The entries for a consumer, each with its stream."""

    entries: list[StreamDelivery]
    pending: Annotated[
        int, Field(description="Entries this consumer holds now, in all of the streams.")
    ]
    state: Annotated[GroupState, Field(description="Whether there is more, and why not.")]


class EntriesOfStreams(Request):
    """Entry ids, by stream."""

    entries: StreamIdsList = Field(min_length=1)


class NackOfStreams(NackChoices, EntriesOfStreams):
    """Deliveries to give back, by stream."""


class SettledStream(TypedDict):
    """The outcomes for one stream, in the order of its ids."""

    stream: str
    results: list[Settled]


class SettledStreams(TypedDict):
    """The outcomes for each stream, in the order of the request."""

    streams: list[SettledStream]
