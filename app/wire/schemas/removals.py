"""Removals from a stream: trims and deletions."""

from typing import Self

from pydantic import BaseModel, Field, model_validator
from typing_extensions import TypedDict

from headgate.app.wire.ids import parse_id
from headgate.app.wire.schemas.values import REFERENCES, Count, Flag, Ids, IdText, Request
from headgate.engine.replies import Deletion
from headgate.engine.requests.entries import References, TrimTo


class Trim(Request):
    """The entries that a trim keeps: give `max_length` or `min_id`."""

    max_length: Count | None = Field(None, description="Keep the newest so many.")
    min_id: IdText | None = Field(None, description="Keep this id and all above.")
    approximate: Flag = Field(
        False, description="Remove only what goes cheaply, and so keep a little more."
    )
    limit: Count | None = Field(
        None, description="With `approximate`: remove so many at most; 0 is no limit."
    )
    references: References = Field(References.KEEP, description=REFERENCES)

    def to_request(self, field: str) -> TrimTo:
        """Return the engine's form."""
        min_id = None if self.min_id is None else parse_id(self.min_id, field=f"{field}/min_id")
        return TrimTo(self.max_length, min_id, self.approximate, self.limit, self.references)

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        if (self.max_length is None) == (self.min_id is None):
            raise ValueError("give either max_length or min_id")
        if self.limit is not None and not self.approximate:
            raise ValueError("limit is for approximate trims only")
        return self


class Deletions(Ids):
    """The entries to delete, and the treatment of pending ones."""

    references: References = Field(References.KEEP, description=REFERENCES)


class Deleted(TypedDict):
    """The outcome of one id."""

    id: IdText
    outcome: Deletion


class DeletedEntries(TypedDict):
    """The outcome of each id, in order."""

    results: list[Deleted]


class Trimmed(BaseModel):
    """The result of a trim."""

    removed: int
