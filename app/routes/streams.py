"""Streams: list, create, describe, change, delete, trim."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from headgate.app.auth.grants import Verb
from headgate.app.auth.needs import needs
from headgate.app.http.answers import array_in_turns, json_answer
from headgate.app.http.dependencies import (
    CURSOR,
    AccessDep,
    LimitsDep,
    StreamDep,
    check_at_most,
    page_after,
)
from headgate.app.http.operation import Operation, PatchOperation
from headgate.app.http.streaming import while_present
from headgate.app.wire.descriptions import group_detail_wire, stream_wire
from headgate.app.wire.encoding import entry_wire
from headgate.app.wire.ids import parse_bound, parse_id
from headgate.app.wire.problems import responses
from headgate.app.wire.schemas.entries import Trim, Trimmed
from headgate.app.wire.schemas.settings import StreamConfig
from headgate.app.wire.schemas.streams import Histogram, Stream, StreamDetail, Streams
from headgate.engine.errors import StreamNotFound
from headgate.engine.limits import DESCRIBED_MAX
from headgate.engine.requests.entries import CountByTime, Range, TrimArchive
from headgate.engine.requests.entries import Trim as TrimRequest
from headgate.engine.requests.streams import (
    CreateStream,
    DeleteStream,
    DescribeStream,
    DetailStream,
    ListStreams,
    UpdateStream,
)

router = APIRouter(prefix="/v1/streams", tags=["Streams"], route_class=Operation)
patches = APIRouter(prefix="/v1/streams", tags=["Streams"], route_class=PatchOperation)


@router.get(
    "", operation_id="listStreams", response_model=Streams, responses=responses("invalid_request")
)
@needs()
async def list_streams(
    access: AccessDep,
    limits: LimitsDep,
    prefix: Annotated[str, Query(description="Only names that start so.")] = "",
    limit: Annotated[int, Query(ge=1, description="Streams in one page.")] = 100,
    cursor: Annotated[str | None, CURSOR] = None,
) -> Response:
    """List streams by name (SCAN TYPE stream)."""
    check_at_most(limit, limits.read_entries_max, pointer="/query/limit")
    page = page_after(cursor, limit)
    infos = await access.perform(ListStreams(prefix=prefix.encode(), **page.with_one_more))
    streams, next_cursor = page.of(infos)
    answer: Streams = {
        "streams": await array_in_turns(streams, stream_wire),
        "next_cursor": next_cursor,
    }
    return json_answer(answer)


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
            "not_supported",
        ),
    },
)
@needs(Verb.MANAGE)
async def create_stream(
    access: AccessDep, stream: StreamDep, response: Response, config: StreamConfig | None = None
) -> Stream:
    """Create an empty stream. A stream is also created by its first append."""
    created = await access.perform(CreateStream(stream, (config or StreamConfig()).to_engine()))
    response.status_code = 201 if created.is_new else 200
    return stream_wire(created.info)


@router.get(
    "/{stream}",
    operation_id="describeStream",
    response_model=StreamDetail,
    responses=responses("stream_not_found", "invalid_request"),
)
@needs(Verb.READ)
async def describe_stream(
    access: AccessDep,
    limits: LimitsDep,
    stream: StreamDep,
    full: Annotated[bool, Query(description="Tell entries, groups and consumers too.")] = False,
    count: Annotated[
        int, Query(ge=0, description="With `full`: how many of each; 0 is as many as allowed.")
    ] = 10,
) -> Response:
    """Describe a stream (XINFO STREAM). The ETag is its last id.

    With `full` it tells of 5,000 groups, consumers and pending entries together, first of the
    groups, and then of what is in the first of them. What is left out is counted, and the lists of
    groups, consumers and pending entries have all of it. Large entries are fewer than `count`.
    """
    check_at_most(count, limits.read_entries_max, pointer="/query/count")
    info = await access.perform(DescribeStream(stream))
    first = await access.perform(Range(stream, limit=1))
    last = await access.perform(Range(stream, reverse=True, limit=1))
    answer: StreamDetail = {
        **stream_wire(info),
        "first_entry": entry_wire(first[0]) if first else None,
        "last_entry": entry_wire(last[0]) if last else None,
    }
    if full:
        detail = await access.perform(
            DetailStream(
                stream,
                count=count or limits.read_entries_max,
                size_bytes_max=limits.read_bytes_max,
                described_max=DESCRIBED_MAX,
            )
        )
        answer["entries"] = await array_in_turns(detail.entries, entry_wire)
        answer["group_details"] = await array_in_turns(detail.groups, group_detail_wire)
        answer["groups_left_out"] = detail.info.group_count - len(detail.groups)
    response = json_answer(answer)
    response.headers["ETag"] = f'"{info.last_id}"'
    return response


@router.get(
    "/{stream}/histogram",
    operation_id="countByTime",
    responses=responses("invalid_id", "stream_not_found", "invalid_request"),
)
@needs(Verb.READ)
async def count_by_time(
    request: Request,
    access: AccessDep,
    stream: StreamDep,
    start: Annotated[
        str, Query(description="An id or its time, `(id` exclusive, or `-` for the first entry.")
    ] = "-",
    end: Annotated[
        str, Query(description="An id or its time, `(id` exclusive, or `+` for the last id.")
    ] = "+",
    buckets: Annotated[int, Query(ge=1, le=1000, description="Buckets at most.")] = 60,
) -> Histogram:
    """Count the entries of a range by the time in their ids.

    All buckets have the same duration, a whole number of milliseconds. The counts are exact:
    entries that are deleted or trimmed do not count. No entry is read for this, except over Redis
    or Valkey servers, where they are counted one by one: there a range of more than 200,000 entries
    is refused with `invalid_request`.
    """
    counting = access.perform(
        CountByTime(
            stream,
            parse_bound(start, field="/query/start"),
            parse_bound(end, field="/query/end", is_end=True),
            buckets,
        )
    )
    return Histogram.of(await while_present(request, counting))


@patches.patch(
    "/{stream}",
    operation_id="updateStream",
    responses=responses(
        "malformed",
        "stream_not_found",
        "unsupported_media_type",
        "invalid_request",
        "not_supported",
    ),
)
@needs(Verb.MANAGE)
async def update_stream(access: AccessDep, stream: StreamDep, patch: StreamConfig) -> Stream:
    """Change a stream's configuration by a merge patch: null removes a bound."""
    return stream_wire(await access.perform(UpdateStream(stream, patch.to_patch())))


@router.delete(
    "/{stream}",
    operation_id="deleteStream",
    status_code=204,
    responses=responses("stream_not_found", "invalid_request"),
)
@needs(Verb.MANAGE)
async def delete_stream(access: AccessDep, stream: StreamDep) -> None:
    """Delete a stream with its groups (DEL). Its blocked readers are told."""
    if not await access.perform(DeleteStream(stream)):
        raise StreamNotFound(stream)


@router.post(
    "/{stream}/trim",
    operation_id="trimStream",
    responses=responses(
        "malformed", "invalid_id", "stream_not_found", "unsupported_media_type", "invalid_request"
    ),
)
@needs(Verb.MANAGE)
async def trim_stream(access: AccessDep, stream: StreamDep, trim: Trim) -> Trimmed:
    """Remove the oldest entries (XTRIM)."""
    return Trimmed(removed=await access.perform(TrimRequest(stream, trim.to_request("/body"))))


@router.delete(
    "/{stream}/archive",
    operation_id="trimArchive",
    responses=responses("invalid_id", "stream_not_found", "invalid_request", "not_supported"),
)
@needs(Verb.MANAGE)
async def trim_archive(
    access: AccessDep,
    stream: StreamDep,
    before: Annotated[
        str | None, Query(description="Only entries below this id; all of them unless given.")
    ] = None,
) -> Trimmed:
    """Remove archived entries for good.

    Nothing else removes them, but for deletes of entries and of the stream.
    """
    before_id = None if before is None else parse_id(before, field="/query/before")
    return Trimmed(removed=await access.perform(TrimArchive(stream, before_id)))
