"""Schedules as they are set and described."""

from typing import Annotated, Any, Literal, cast

from pydantic import ConfigDict, Field, field_validator, model_validator
from pydantic.config import JsonDict
from typing_extensions import TypedDict

from headgate.app.wire.fields import FieldsRead, wire_fields
from headgate.app.wire.names import NameText, check_name, text_of
from headgate.app.wire.schemas.entries import FieldsInput, Flag, IdText, NextCursor, without_null
from headgate.engine import schedules as definition
from headgate.engine import schedules as progress

StreamName = Annotated[NameText, Field(description="Stream to append to.", examples=["jobs"])]
Cron = Annotated[
    str,
    Field(
        description="Cron expression in the syntax of Debian's cron: minute, hour, day of month, "
        "month, day of week.",
        examples=["0 6 * * MON-FRI"],
    ),
]
TimeZone = Annotated[
    str, Field(description="IANA name of the time zone.", examples=["Europe/Berlin"])
]
Missed = Annotated[
    Literal["run_once", "skip"],
    Field(
        description="What to do about due times that the gateway missed by more than a minute: "
        "append once, late, for the latest of them, or skip them."
    ),
]
Paused = Annotated[
    Flag, Field(description="If true, nothing is due until the schedule is resumed.")
]


class ScheduleInput(FieldsInput):
    """Settings of a schedule."""

    stream: StreamName
    cron: Cron
    time_zone: TimeZone = "UTC"
    missed: Missed = "run_once"
    paused: Paused = False

    def to_definition(self) -> definition.Definition:
        return definition.Definition(
            check_name(self.stream, pointer="/body/stream"),
            self.to_fields(),
            self.cron,
            self.time_zone,
            definition.Missed(self.missed),
            self.paused,
        )


def _describe_patch(schema: JsonDict) -> None:
    parts = cast(dict[str, JsonDict], schema["properties"])
    schema["properties"] = {name: without_null(part) for name, part in parts.items()}
    both: JsonDict = {"required": ["fields", "pairs"], "properties": {"fields": {}, "pairs": {}}}
    schema |= {"minProperties": 1, "not": both}


class SchedulePatch(FieldsInput):
    """A change of a schedule; give at least one part. `fields` are replaced as a whole."""

    model_config = ConfigDict(json_schema_extra=_describe_patch)

    stream: StreamName | None = None
    cron: Cron | None = None
    time_zone: TimeZone | None = None
    missed: Missed | None = None
    paused: Paused | None = None

    @model_validator(mode="before")
    @classmethod
    def _has_parts(cls, parts: Any) -> Any:
        if not parts:
            raise ValueError("give at least one part")
        return parts

    @field_validator("*", mode="before")
    @classmethod
    def _is_not_null(cls, part: Any) -> Any:
        if part is None:
            raise ValueError("a part of a schedule cannot be null")
        return part

    def _leaves_fields(self) -> bool:
        return self.model_fields_set.isdisjoint(FieldsInput.model_fields)

    def changed(self, before: definition.Definition) -> definition.Definition:
        stream = None if self.stream is None else check_name(self.stream, pointer="/body/stream")
        return definition.Definition(
            before.stream if stream is None else stream,
            before.fields if self._leaves_fields() else self.to_fields(),
            before.cron if self.cron is None else self.cron,
            before.time_zone if self.time_zone is None else self.time_zone,
            before.missed if self.missed is None else definition.Missed(self.missed),
            before.is_paused if self.paused is None else self.paused,
        )


class ScheduleRefusal(TypedDict):
    """The last refused append of a schedule."""

    code: Annotated[str, Field(description="Code for programs.")]
    detail: Annotated[str, Field(description="Explanation for people.")]
    at_ms: int


class _ScheduleHead(TypedDict):
    name: str
    stream: StreamName


class Schedule(_ScheduleHead, FieldsRead):
    """A schedule and its progress."""

    cron: Cron
    time_zone: TimeZone
    missed: Missed
    paused: Paused
    next_due_ms: Annotated[
        int | None,
        Field(
            description="Next due time; null if the schedule is paused or has no more due times."
        ),
    ]
    last_due_ms: Annotated[
        int | None, Field(description="Due time of the last entry; null if there is none yet.")
    ]
    last_id: Annotated[IdText | None, Field(description="Id of the last entry.")]
    missed_count: Annotated[int, Field(description="Due times that were missed, without an entry.")]
    refused_count: Annotated[int, Field(description="Appends that were refused.")]
    problem: Annotated[
        ScheduleRefusal | None,
        Field(description="Why the last append was refused; null if it was not."),
    ]


class Schedules(TypedDict):
    """A page of schedules, by name."""

    schedules: list[Schedule]
    next_cursor: NextCursor


class ScheduleTimes(TypedDict):
    """Due times of a cron expression that come next."""

    times_ms: Annotated[
        list[int],
        Field(description="In their order; fewer than `count`, or none, if there are no more."),
    ]


def _refusal_wire(refusal: progress.Refusal) -> ScheduleRefusal:
    return {"code": refusal.code, "detail": refusal.detail, "at_ms": refusal.at_ms}


def schedule_wire(info: progress.ScheduleInfo) -> Schedule:
    defined, reached = info.definition, info.progress
    refusal = reached.refusal
    return {
        "name": text_of(info.name),
        "stream": text_of(defined.stream),
        **wire_fields(defined.fields),
        "cron": defined.cron,
        "time_zone": defined.time_zone,
        "missed": defined.missed.value,
        "paused": defined.is_paused,
        "next_due_ms": reached.next_due_ms,
        "last_due_ms": reached.last_due_ms,
        "last_id": None if reached.last_id is None else str(reached.last_id),
        "missed_count": reached.missed_count,
        "refused_count": reached.refused_count,
        "problem": None if refusal is None else _refusal_wire(refusal),
    }
