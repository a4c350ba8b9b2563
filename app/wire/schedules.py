"""Schedules as they are set and described."""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator
from typing_extensions import TypedDict

from headgate.app.wire.fields import FieldsRead, wire_fields
from headgate.app.wire.names import check_name, text_of
from headgate.app.wire.schemas.entries import FieldsInput, Flag, IdText, NextCursor
from headgate.engine import schedules as definition
from headgate.engine import schedules as progress

StreamName = Annotated[str, Field(description="Stream that gets the entries.", examples=["jobs"])]
Cron = Annotated[
    str,
    Field(
        description="Minute, hour, day of month, month, day of week, as Debian's cron reads them.",
        examples=["0 6 * * MON-FRI"],
    ),
]
TimeZone = Annotated[
    str, Field(description="IANA name of the time zone.", examples=["Europe/Berlin"])
]
Missed = Annotated[
    Literal["run_once", "skip"],
    Field(
        description="Due times that nobody could run for a minute: the latest of them is run late, "
        "or none is."
    ),
]
Paused = Annotated[Flag, Field(description="Nothing is due until it goes on.")]


class ScheduleInput(FieldsInput):
    """A schedule to set."""

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


class SchedulePatch(FieldsInput):
    """A change of a schedule; give at least one part. Fields are replaced as a whole."""

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
        if isinstance(parts, dict) and None in parts.values():
            raise ValueError("no part of a schedule can be null")
        return parts

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
    """The last append of a schedule that was refused."""

    code: Annotated[str, Field(description="The problem, for programs.")]
    detail: Annotated[str, Field(description="The problem, for people.")]
    at_ms: int


class _ScheduleHead(TypedDict):
    name: str
    stream: StreamName


class Schedule(_ScheduleHead, FieldsRead):
    """A schedule, and how far it has come."""

    cron: Cron
    time_zone: TimeZone
    missed: Missed
    paused: Paused
    next_due_ms: Annotated[
        int | None,
        Field(description="The next due time; null while it is paused, or if there is none."),
    ]
    last_due_ms: Annotated[
        int | None, Field(description="The due time of the last entry; null: there was none yet.")
    ]
    last_id: Annotated[IdText | None, Field(description="Of the last entry.")]
    missed_count: Annotated[
        int, Field(description="Due times without an entry, as nobody could run them.")
    ]
    refused_count: Annotated[int, Field(description="Appends that were refused.")]
    problem: Annotated[
        ScheduleRefusal | None,
        Field(description="Why the last append was refused; null: it was not."),
    ]


class Schedules(TypedDict):
    """A page of schedules, by name."""

    schedules: list[Schedule]
    next_cursor: NextCursor


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
