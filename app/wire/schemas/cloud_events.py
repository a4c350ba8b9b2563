"""Events of CloudEvents 1.0, as the document shows them."""

from typing import Any, Literal

from pydantic import BaseModel, Field

CLOUD_EVENT = "#/components/schemas/CloudEvent"


class CloudEvent(BaseModel):
    """An event of CloudEvents 1.0 in the JSON format. Its extensions are further members."""

    specversion: Literal["1.0"] = Field(description="Version of the specification.")
    id: str = Field(min_length=1, description="With `source` it names the event.")
    source: str = Field(min_length=1, description="A URI reference: the context of the event.")
    type: str = Field(min_length=1, description="The kind of event.")
    time: str | None = Field(None, description="When it happened, as of RFC 3339.")
    subject: str | None = Field(None, description="The subject of the event in its source.")
    dataschema: str | None = Field(None, description="A URI: the schema of the data.")
    datacontenttype: str | None = Field(None, description="Media type of the data; JSON if unset.")
    data: Any = Field(None, description="The data: a JSON value, or a text.")
    data_base64: str | None = Field(None, description="Instead: the data as base64 text.")
    headgateid: str | None = Field(
        None, description="Extension of events that are read: the id of the entry."
    )
    headgatedeliveries: int | None = Field(
        None, description="Extension of events that a group reads: the number of deliveries."
    )
