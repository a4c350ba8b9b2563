"""The schema of a stream, as clients write and read it."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema


class StreamSchema(BaseModel):
    """The schema that new entries of a stream must match."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True, serialize_by_alias=True)

    # Generators make no type that compiles of any object.
    schema_: Annotated[dict[str, Any], WithJsonSchema({})] = Field(
        alias="schema",
        title="Schema",
        description="JSON Schema 2020-12, an object, for the fields of an entry.",
    )
