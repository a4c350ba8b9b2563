"""Streams: list, create, describe, change, delete, trim."""

import base64
import binascii
from typing import Annotated

from fastapi import APIRouter, Query, Response

from app.dependencies import BackendDep, LimitsDep, StreamDep, check_at_most
from app.operation import Operation, PatchOperation
from app.problems import GatewayError, responses
from app.schemas import Stream, StreamConfig, StreamDetail, Streams, Trim, Trimmed
from engine.errors import StreamNotFound

router = APIRouter(prefix="/v1/streams", tags=["Streams"], route_class=Operation)
patches = APIRouter(prefix="/v1/streams", tags=["Streams"], route_class=PatchOperation)


@router.get("", operation_id="listStreams", responses=responses("invalid_request"))
async def list_streams(
    backend: BackendDep,
    limits: LimitsDep,
    prefix: Annotated[str, Query(description="Only names that start so.")] = "",
    limit: Annotated[int, Query(ge=1, description="Streams in one page.")] = 100,
    cursor: Annotated[str | None, Query(description="`next_cursor` of the page before.")] = None,
) -> Streams:
    """List streams by name (SCAN TYPE stream)."""
    check_at_most(limit, limits.read_entries_max, pointer="/query/limit")
    after = None if cursor is None else _cursor_name(cursor)
    found = await backend.list_streams(prefix=prefix.encode(), after=after, limit=limit + 1)
    page = found[:limit]
    more = len(found) > limit
    return Streams(
        streams=[Stream.of(info) for info in page],
        next_cursor=base64.urlsafe_b64encode(page[-1].name).decode() if more else None,
    )


@router.put(
    "/{stream}",
    operation_id="createStream",
    status_code=201,
    responses={
        200: {"description": "It was there, with this configuration.", "model": Stream},
        **responses(
            "malformed",
            "stream_exists",
            "limit_reached",
            "unsupported_media_type",
            "invalid_request",
            "memory_full",
        ),
    },
)
async def create_stream(
    backend: BackendDep, stream: StreamDep, response: Response, config: StreamConfig | None = None
) -> Stream:
    """Create an empty stream. A stream is also created by its first append."""
    is_new = await backend.create_stream(stream, (config or StreamConfig()).to_engine())
    response.status_code = 201 if is_new else 200
    return Stream.of(await backend.stream_info(stream))


@router.get(
    "/{stream}",
    operation_id="describeStream",
    response_model_exclude_unset=True,
    responses=responses("stream_not_found", "invalid_request"),
)
async def describe_stream(
    backend: BackendDep,
    limits: LimitsDep,
    stream: StreamDep,
    response: Response,
    full: Annotated[bool, Query(description="Tell entries, groups and consumers too.")] = False,
    count: Annotated[
        int, Query(ge=0, description="With `full`: how many of each; 0 is as many as allowed.")
    ] = 10,
) -> StreamDetail:
    """Describe a stream (XINFO STREAM). The ETag is its last id."""
    check_at_most(count, limits.read_entries_max, pointer="/query/count")
    found = StreamDetail.of_ends(
        await backend.stream_info(stream),
        await backend.range(stream, limit=1),
        await backend.reverse_range(stream, limit=1),
    )
    if full:
        detail = await backend.stream_detail(stream, count=count or limits.read_entries_max)
        found = found.with_detail(detail)
    response.headers["ETag"] = f'"{found.last_id}"'
    return found


@patches.patch(
    "/{stream}",
    operation_id="updateStream",
    responses=responses(
        "malformed", "stream_not_found", "unsupported_media_type", "invalid_request"
    ),
)
async def update_stream(backend: BackendDep, stream: StreamDep, patch: StreamConfig) -> Stream:
    """Change a stream's configuration by a merge patch: null removes a bound."""
    info = await backend.stream_info(stream)
    await backend.configure_stream(stream, patch.merged_into(info.config))
    return Stream.of(await backend.stream_info(stream))


@router.delete(
    "/{stream}",
    operation_id="deleteStream",
    status_code=204,
    responses=responses("stream_not_found", "invalid_request"),
)
async def delete_stream(backend: BackendDep, stream: StreamDep) -> None:
    """Delete a stream with its groups (DEL). Its blocked readers are told."""
    if not await backend.delete_stream(stream):
        raise StreamNotFound(stream)


@router.post(
    "/{stream}/trim",
    operation_id="trimStream",
    responses=responses(
        "malformed", "invalid_id", "stream_not_found", "unsupported_media_type", "invalid_request"
    ),
)
async def trim_stream(backend: BackendDep, stream: StreamDep, trim: Trim) -> Trimmed:
    """Remove the oldest entries (XTRIM)."""
    await backend.stream_info(stream)
    return Trimmed(removed=await backend.trim(stream, trim.to_request("/body")))


def _cursor_name(cursor: str) -> bytes:
    try:
        return base64.b64decode(cursor, altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        text = "not a cursor of this gateway"
        raise GatewayError("invalid_request", text, pointer="/query/cursor") from None
