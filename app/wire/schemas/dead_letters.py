"""Dead letters that are sent back."""

from typing import Annotated

from pydantic import BaseModel, Field

from headgate.app.wire.schemas.values import IdText, Request
from headgate.engine.replies import RedriveOutcome


class Redrive(Request):
    """Dead letters to send back; all parts may be left out."""

    ids: Annotated[list[IdText], Field(fail_fast=True)] | None = Field(
        None, min_length=1, description="By their ids in the dead letter stream; else the oldest."
    )
    limit: Annotated[int, Field(ge=1, strict=True)] = Field(100, description="So many at most.")


class Redriven(BaseModel):
    """A dead letter that was sent back."""

    id: IdText = Field(description="Its id in the dead letter stream, where it is no more.")
    outcome: RedriveOutcome = Field(
        description="`released`: the group's next reader gets the entry. `appended`: it was gone "
        "from its stream and is a new entry there, for every group."
    )
    entry_id: IdText = Field(description="Its id in the stream it came from.")


class RedrivenLetters(BaseModel):
    """The outcome of each dead letter."""

    results: list[Redriven]
