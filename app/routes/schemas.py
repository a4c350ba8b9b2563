"""Schemas: set, get and delete the schema that new entries of a stream have to match."""

from collections.abc import Iterable
from itertools import islice
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query, Request, Response

from headgate.app.auth.access import Access
from headgate.app.auth.grants import Verb
from headgate.app.auth.needs import needs
from headgate.app.backends.port import Ability
from headgate.app.entry_schemas.bounds import SchemaRefused
from headgate.app.entry_schemas.checks import CompiledSchema, read_schema
from headgate.app.entry_schemas.evolution import narrowed
from headgate.app.http.answers import json_answer
from headgate.app.http.dependencies import AccessDep, StreamDep, gateway_of
from headgate.app.http.operation import Operation
from headgate.app.live.asyncapi import document_of_stream
from headgate.app.runtime.threads import PAGES
from headgate.app.wire.problems import SETTING, GatewayError, pointer_to, responses
from headgate.app.wire.schemas.entry_schemas import StreamSchema
from headgate.engine.errors import StreamExists, StreamNotFound, StreamsChanged
from headgate.engine.requests.streams import (
    SCHEMA,
    AttributeChange,
    ChangeAttributes,
    CreateStream,
    GetAttributes,
)

router = APIRouter(prefix="/v1/streams/{stream}/schema", tags=["Streams"], route_class=Operation)

documents = APIRouter(prefix="/v1/streams", route_class=Operation)

_TRIES_MAX = 10
"""Tries to set a schema that others set at the same time."""

_REASONS_MAX = 10


@router.put(
    "",
    operation_id="setSchema",
    responses={
        201: {"description": "The stream was created with it.", "model": StreamSchema},
        **responses(*SETTING, "not_supported"),
    },
)
@needs(Verb.MANAGE)
async def set_schema(
    request: Request,
    access: AccessDep,
    stream: StreamDep,
    wanted: StreamSchema,
    response: Response,
    force: Annotated[
        bool,
        Query(description="Replace a schema even if entries that matched before may not match it."),
    ] = False,
) -> StreamSchema:
    """Set the schema of a stream. Every entry that is appended from now on must match it.

    The schema is a JSON Schema 2020-12 for an object with the fields of an entry. A value is read
    as JSON unless the schema of its field allows a string: with `{"type": "integer"}`, the value
    `5` is a number. The gateway refuses requests with other entries with `invalid_request`, which
    names the fields, and records nothing of them. This applies to all APIs. The stream is created
    if it does not exist.

    A schema replaces another one only if every entry that matched before still matches. The gateway
    also refuses changes that it cannot decide. `force` replaces the schema anyway. Entries that the
    stream already contains are not checked.
    """
    gateway_of(request).require(Ability.SCHEMAS)
    access.admit(ChangeAttributes(stream, AttributeChange({})))  # before anything is compiled
    text = msgspec.json.encode(wanted.schema_)
    new = await PAGES.call_if_awaited(lambda: _compiled(text))
    for _ in range(_TRIES_MAX):
        before = await _text_of(access, stream)
        if before is not None and not force:
            _check_compatible(read_schema(before), new)
        change = AttributeChange({SCHEMA: text}, {SCHEMA: before})
        try:
            is_new = await _changed(access, stream, change)
        except (StreamsChanged, StreamExists):
            continue
        response.status_code = 201 if is_new else 200
        return wanted
    raise GatewayError("overloaded", "Others change this schema at the same time.")


@router.get(
    "",
    operation_id="getSchema",
    response_model=StreamSchema,
    responses=responses("stream_not_found", "not_found", "invalid_request", "not_supported"),
)
@needs(Verb.READ, Verb.APPEND, Verb.MANAGE)
async def get_schema(request: Request, access: AccessDep, stream: StreamDep) -> Response:
    """Return the schema of a stream."""
    gateway_of(request).require(Ability.SCHEMAS)
    return json_answer({"schema": await schema_of(access, stream)})


@documents.get("/{stream}/asyncapi.json", include_in_schema=False)
@needs(Verb.READ, Verb.APPEND, Verb.MANAGE)
async def describe_entries(request: Request, access: AccessDep, stream: StreamDep) -> Response:
    """Return the description of the entries of a stream that has a schema (AsyncAPI)."""
    gateway_of(request).require(Ability.SCHEMAS)
    name = stream.decode(errors="replace")
    return json_answer(document_of_stream(name, await schema_of(access, stream)))


@router.delete(
    "",
    operation_id="deleteSchema",
    status_code=204,
    responses=responses("stream_not_found", "invalid_request", "not_supported"),
)
@needs(Verb.MANAGE)
async def delete_schema(request: Request, access: AccessDep, stream: StreamDep) -> None:
    """Delete the schema of a stream. The stream then accepts any entry again."""
    gateway_of(request).require(Ability.SCHEMAS)
    with access.act("deleteSchema"):
        await access.perform(ChangeAttributes(stream, AttributeChange({SCHEMA: None})))


async def schema_of(access: Access, stream: bytes) -> dict[str, Any]:
    """Return the schema of a stream. StreamNotFound; GatewayError if it has none."""
    text = (await access.perform(GetAttributes(stream, [SCHEMA]))).get(SCHEMA)
    if text is None:
        raise GatewayError("not_found", "The stream has no schema.")
    return read_schema(text)


async def _text_of(access: Access, stream: bytes) -> bytes | None:
    try:
        return (await access.perform(GetAttributes(stream, [SCHEMA]))).get(SCHEMA)
    except StreamNotFound:
        return None


async def _changed(access: Access, stream: bytes, change: AttributeChange) -> bool:
    """Set a schema; return whether the stream was created. StreamsChanged, StreamExists."""
    try:
        with access.act("setSchema"):
            await access.perform(ChangeAttributes(stream, change))
    except StreamNotFound:
        if (await access.perform(CreateStream(stream, attributes=change))).is_new:
            return True
        raise StreamsChanged from None  # somebody else has created it
    return False


def _compiled(text: bytes) -> dict[str, Any]:
    try:
        schema = read_schema(text)
        CompiledSchema(schema)
    except SchemaRefused as error:
        pointer = pointer_to("body", "schema", *error.place)
        raise GatewayError("invalid_request", str(error), pointer=pointer) from None
    return schema


def _check_compatible(old: dict[str, Any], new: dict[str, Any]) -> None:
    reasons = list(islice(narrowed(old, new), _REASONS_MAX))
    if reasons:
        places = _joined(f"{pointer_to(*reason.place) or '/'} {reason.text}" for reason in reasons)
        text = f"entries that match the present schema may not match this one: {places}"
        pointer = pointer_to("body", "schema", *reasons[0].place)
        raise GatewayError("invalid_request", f"{text}; force=true replaces it", pointer=pointer)


def _joined(texts: Iterable[str]) -> str:
    return "; ".join(texts)
