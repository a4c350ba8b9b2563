"""Values of several models: types of their fields, and the base of request bodies."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypeAliasType

from headgate.engine import config
from headgate.engine.limits import COUNT_MAX

# The pattern is told, not checked here: a malformed id has a problem of its own, `invalid_id`.
IdText = Annotated[
    str,
    Field(
        description="Entry id.",
        examples=["1718000000000-0"],
        json_schema_extra={"pattern": r"^[0-9]{1,20}(-[0-9]{1,20})?$"},
    ),
]

CursorText = Annotated[
    str,
    Field(description="Cursor of all streams that match a pattern. Its text has no meaning."),
]

OnDisconnect = TypeAliasType("OnDisconnect", config.OnDisconnect)
OnExpiry = TypeAliasType("OnExpiry", config.OnExpiry)
Count = Annotated[int, Field(ge=0, le=COUNT_MAX, strict=True)]
Positive = Annotated[int, Field(ge=1, le=COUNT_MAX, strict=True)]
Milliseconds = Annotated[int, Field(ge=0, le=COUNT_MAX, strict=True)]
Flag = Annotated[bool, Field(strict=True)]
EpochText = Annotated[str, Field(description="Identity of this life of the stream's name.")]

REFERENCES = (
    "Where an entry is pending in a group: `keep` removes it and it stays pending there, `delete` "
    "makes it pending no more, `acked` spares what a group has not read or not acknowledged."
)

NextCursor = Annotated[
    str | None,
    Field(description="Pass it as `cursor` for the next page; null: this was the last."),
]


class Request(BaseModel):
    """A request body: unknown fields are refused."""

    model_config = ConfigDict(extra="forbid")


class Ids(Request):
    """A list of entry ids."""

    ids: Annotated[list[IdText], Field(fail_fast=True)] = Field(min_length=1)
