"""How the gateway and its journal are."""

from typing import Literal, Self

from pydantic import BaseModel, Field

from headgate.app.backends.port import Durable
from headgate.engine.replies import JournalStatus as EngineJournalStatus


class Health(BaseModel):
    """Whether the gateway lives, or is ready."""

    status: Literal["ok"]
    warnings: list[str] | None = Field(
        None, description="What an operator should look at; the log says more."
    )
    durable: Durable | None = Field(
        None, description="What an answer to a change has waited for; told by `/readyz`."
    )


class JournalState(BaseModel):
    """How the journal is."""

    position: int = Field(description="Records taken.")
    durable_position: int = Field(description="Records that are safe.")
    size_bytes: int = Field(description="Size of snapshot and segments.")
    failure: str | None = Field(description="Why nothing can be written until a restart.")
    fault: str | None = Field(description="Why nothing can be written for now.")
    shortage: str | None = Field(description="Why appends are refused for now: no room.")
    is_rewriting: bool = Field(description="Whether a snapshot is being made.")
    rewrite_count: int = Field(description="Snapshots made since the start.")
    rewrite_failure: str | None = Field(description="Why the last rewrite did not work.")

    @classmethod
    def of(cls, status: EngineJournalStatus) -> Self:
        """Return what the journal says of itself."""
        return cls.model_validate(status._asdict())


class Draining(BaseModel):
    """The connection is about to end; come back after so long."""

    reconnect_after_ms: int
