"""Commits: steps that are carried out together, and what comes of them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, NotRequired, Self

import msgspec
from pydantic import BeforeValidator, ConfigDict, Field, model_validator
from typing_extensions import TypedDict

from headgate.app.wire.ids import parse_id, parse_ids
from headgate.app.wire.names import NameText, check_name
from headgate.app.wire.problems import GatewayError
from headgate.app.wire.schemas.deliveries import NackChoices
from headgate.app.wire.schemas.entries import (
    FIELDS_OR_PAIRS_OR_NONE,
    Count,
    EntryDraft,
    FieldsInput,
    Flag,
    Ids,
    IdText,
    Milliseconds,
    Request,
)
from headgate.app.wire.schemas.tables import check_key, key_of_text
from headgate.engine.entry import EntryId
from headgate.engine.errors import Location
from headgate.engine.limits import COMMIT_ITEMS_MAX, COMMIT_STEPS_MAX
from headgate.engine.replies import CommittedSteps
from headgate.engine.requests.commits import CommitStep, CommitSteps
from headgate.engine.requests.deliveries import Ack, Extend, Nack, NackMode
from headgate.engine.requests.entries import Add
from headgate.engine.requests.idempotency import Digest, Idempotent
from headgate.engine.requests.schedules import DeleteSchedule, SetSchedule
from headgate.engine.requests.tables import DeleteRow, PutRow, RowCondition
from headgate.engine.schedules import once

Name = Annotated[NameText, Field(description="Name of the stream, group, consumer or timer.")]
IfMatch = Annotated[
    IdText | None, Field(description="Fail unless this is the id of the row before the commit.")
]


class _Step(Request):
    def to_engine(self, consumer: bytes | None, place: str) -> CommitStep:
        """Return the engine's form; `place` is a pointer to the step, for errors."""
        raise NotImplementedError


class CommitAppend(_Step):
    """Append entries to a stream. The stream generates their ids."""

    stream: Name
    entries: Annotated[list[EntryDraft], Field(fail_fast=True)] = Field(
        min_length=1, max_length=COMMIT_ITEMS_MAX
    )
    if_last_id: IdText | None = Field(
        None, description="Fail unless this is the last id of the stream before the commit."
    )
    create_stream: Flag = Field(True, description="Create the stream if it does not exist.")

    def to_engine(self, _: bytes | None, place: str) -> Add:
        expected = None
        if self.if_last_id is not None:
            expected = parse_id(self.if_last_id, field=f"{place}/if_last_id")
        return Add(
            check_name(self.stream, pointer=f"{place}/stream"),
            [each.to_draft(f"{place}/entries/{at}") for at, each in enumerate(self.entries)],
            create_stream=self.create_stream,
            expected_last_id=expected,
        )


class _RowStep(_Step):
    stream: Name
    key: Name
    if_match: IfMatch = None
    if_none_match: Literal["*"] | None = Field(
        None, description="Instead of `if_match`: fail if the row exists before the commit."
    )

    @model_validator(mode="after")
    def _has_one_condition(self) -> Self:
        if self.if_match is not None and self.if_none_match is not None:
            raise ValueError("give either if_match or if_none_match")
        return self

    def row(self, place: str) -> tuple[bytes, bytes]:
        pointer = f"{place}/key"
        key = check_key(key_of_text(self.key, pointer=pointer), pointer=pointer)
        return check_name(self.stream, pointer=f"{place}/stream"), key

    def condition(self, place: str) -> RowCondition | None:
        if self.if_match is not None:
            return RowCondition(parse_id(self.if_match, field=f"{place}/if_match"))
        return None if self.if_none_match is None else RowCondition()


class CommitPutRow(_RowStep, FieldsInput):
    """Write the row of a key. The gateway adds the key field."""

    model_config = ConfigDict(json_schema_extra=FIELDS_OR_PAIRS_OR_NONE)

    def _leaves_fields(self) -> bool:
        return not self.fields and not self.pairs

    def to_engine(self, _: bytes | None, place: str) -> PutRow:
        return PutRow(*self.row(place), self.to_fields(place), self.condition(place))


class CommitDeleteRow(_RowStep):
    """Remove the row of a key."""

    def to_engine(self, _: bytes | None, place: str) -> DeleteRow:
        return DeleteRow(*self.row(place), self.condition(place))


class _SettlingStep(_Step, Ids):
    stream: Name
    group: Name
    deliveries: Annotated[list[Count], Field(fail_fast=True)] | None = Field(
        None,
        description="Delivery count of each id, as received with the entry. The commit fails if "
        "an entry was delivered again since, even to the same consumer.",
    )

    @model_validator(mode="after")
    def _has_a_count_each(self) -> Self:
        if self.deliveries is not None and len(self.deliveries) != len(self.ids):
            raise ValueError("deliveries must have one count per id")
        return self

    def names(self, place: str) -> tuple[bytes, bytes, list[EntryId]]:
        return (
            check_name(self.stream, pointer=f"{place}/stream"),
            check_name(self.group, pointer=f"{place}/group"),
            parse_ids(self.ids, field=f"{place}/ids"),
        )

    def counts(self, ids: Sequence[EntryId]) -> Mapping[EntryId, int] | None:
        return None if self.deliveries is None else dict(zip(ids, self.deliveries, strict=True))


def _required(consumer: bytes | None) -> bytes:
    if consumer is None:
        text = "a commit that settles entries must name the consumer that holds them"
        raise GatewayError("consumer_required", text, pointer="/body/consumer")
    return consumer


class CommitAck(_SettlingStep):
    """Acknowledge entries that the consumer holds."""

    def to_engine(self, consumer: bytes | None, place: str) -> Ack:
        stream, group, ids = self.names(place)
        return Ack(stream, group, ids, _required(consumer), self.counts(ids))


class CommitNack(_SettlingStep, NackChoices):
    """Give back entries that the consumer holds."""

    def to_engine(self, consumer: bytes | None, place: str) -> Nack:
        stream, group, ids = self.names(place)
        return Nack(
            stream,
            group,
            ids,
            NackMode(self.mode),
            delay_ms=self.delay_ms,
            error=self.error.encode() if self.error else None,
            consumer=_required(consumer),
            counts=self.counts(ids),
        )


class CommitExtend(_SettlingStep):
    """Restart the idle time of entries that the consumer holds."""

    def to_engine(self, consumer: bytes | None, place: str) -> Extend:
        stream, group, ids = self.names(place)
        return Extend(stream, group, ids, _required(consumer), self.counts(ids))


class CommitSchedule(_Step, FieldsInput):
    """Append an entry once, at a given time. This replaces a timer with the same name."""

    name: Name
    stream: Name
    at_ms: Milliseconds = Field(description="Unix time at which to append the entry.")

    def to_engine(self, _: bytes | None, place: str) -> SetSchedule:
        definition = once(
            check_name(self.stream, pointer=f"{place}/stream"), self.to_fields(place), self.at_ms
        )
        name = check_name(self.name, pointer=f"{place}/name")
        return SetSchedule(name, definition, self.at_ms, revision=None)


class CommitCancel(_Step):
    """Delete a timer, or any other schedule, if it exists."""

    name: Name

    def to_engine(self, _: bytes | None, place: str) -> DeleteSchedule:
        return DeleteSchedule(check_name(self.name, pointer=f"{place}/name"))


class CommitStepInput(Request):
    """A step of a commit: an object with exactly one of these members."""

    append: CommitAppend | None = None
    put_row: CommitPutRow | None = None
    delete_row: CommitDeleteRow | None = None
    ack: CommitAck | None = None
    nack: CommitNack | None = None
    extend: CommitExtend | None = None
    schedule: CommitSchedule | None = None
    cancel: CommitCancel | None = None

    @model_validator(mode="after")
    def _is_one_step(self) -> Self:
        if len(self.model_fields_set) != 1 or getattr(self, self.name) is None:
            raise ValueError(
                "a step must have exactly one of " + ", ".join(type(self).model_fields)
            )
        return self

    @property
    def name(self) -> str:
        return next(iter(self.model_fields_set))

    def to_engine(self, consumer: bytes | None, place: str) -> CommitStep:
        step: _Step = getattr(self, self.name)
        return step.to_engine(consumer, f"{place}/{self.name}")


def _check_items(steps: Any) -> Any:
    """Count entries and ids before they are validated, which takes longer."""
    some = steps[:COMMIT_STEPS_MAX] if isinstance(steps, list) else ()
    parts = [part for step in _dicts(some) for part in _dicts(step.values())]
    lists = [part.get(name) for part in parts for name in ("entries", "ids")]
    if sum(len(each) for each in lists if isinstance(each, list)) > COMMIT_ITEMS_MAX:
        raise ValueError(f"a commit may have at most {COMMIT_ITEMS_MAX} entries and ids")
    return steps


def _dicts(values: Iterable[Any]) -> list[dict[str, Any]]:
    return [each for each in values if isinstance(each, dict)]


_OF_COMMITS = b"commits/"
"""Before the producer of a commit, whose keys are not those of its appends."""


class CommitInput(Request):
    """Steps that are applied together or not at all."""

    consumer: Name | None = Field(
        None,
        description="Consumer that holds the entries to settle. The query or a header can also "
        "name it.",
    )
    steps: Annotated[
        list[CommitStepInput], Field(fail_fast=True), BeforeValidator(_check_items)
    ] = Field(min_length=1, max_length=COMMIT_STEPS_MAX)

    def to_request(
        self, consumer: bytes | None, producer: bytes = b"", key: bytes | None = None
    ) -> CommitSteps:
        """Return the request of the engine.

        Args:
            consumer: named beside the body, if one is.
            producer: whose key it is.
            key: under which the commit is carried out once; None: it cannot be repeated.

        Raises:
            GatewayError: with a pointer to what is wrong in the body.
        """
        settler = consumer_of(self.consumer, consumer)
        steps = enumerate(self.steps)
        engine_steps = [step.to_engine(settler, f"/body/steps/{at}") for at, step in steps]
        return commit_request(engine_steps, producer, key)

    def place(self, location: Location) -> Location:
        """Return the place in the body of what is wrong with the engine's form."""
        return place_of(location, [step.name for step in self.steps])


def consumer_of(in_body: str | None, beside: bytes | None) -> bytes | None:
    """Return the consumer that a commit names in its body, or beside it; GatewayError if both."""
    if in_body is None:
        return beside
    named = check_name(in_body, pointer="/body/consumer")
    if beside not in (None, named):
        text = "the body names another consumer than the query or header"
        raise GatewayError("consumer_conflict", text, pointer="/body/consumer")
    return named


def commit_request(steps: Sequence[CommitStep], producer: bytes, key: bytes | None) -> CommitSteps:
    if key is None:
        return CommitSteps(steps)
    digest = Digest()
    digest.add_framed(msgspec.msgpack.encode(steps))
    return CommitSteps(steps, Idempotent(_OF_COMMITS + producer, key, digest.value()))


def place_of(location: Location, names: Sequence[str]) -> Location:
    match location:
        case ("steps", int(number), *inner):
            if inner[:1] == ["drafts"]:
                inner[0] = "entries"
            return "steps", number, names[number], *inner
    return location


class CommitResult(TypedDict):
    """Result of a step."""

    ids: NotRequired[
        Annotated[list[IdText], Field(description="Ids of the entries that the step appended.")]
    ]


class CommitDone(TypedDict):
    """Result of each step, in order."""

    results: list[CommitResult]


def commit_wire(done: CommittedSteps) -> CommitDone:
    return {"results": [{"ids": [*map(str, ids)]} if ids else {} for ids in done.ids]}
