"""Streams: list, create, describe, change, delete, trim."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from headgate.app.auth.grants import Verb
from headgate.app.auth.needs import needs
from headgate.app.automation.push_states import group_wire_of
from headgate.app.http.answers import array_in_turns, json_answer
from headgate.app.http.dependencies import (
    CURSOR,
    AccessDep,
    LimitsDep,
    StreamDep,
    ToolsDep,
    check_at_most,
    page_after,
)
from headgate.app.http.operation import Operation, PatchOperation
from headgate.app.http.streaming import while_present
from headgate.app.wire.descriptions import group_detail_wire, stream_wire
from headgate.app.wire.encoding import entry_wire
from headgate.app.wire.ids import AnId, BoundText, parse_bound, parse_id
from headgate.app.wire.problems import responses
from headgate.app.wire.schemas.entries import Trim, Trimmed
from headgate.app.wire.schemas.settings import StreamConfig
from headgate.app.wire.schemas.streams import Histogram, Stream, StreamDetail, Streams
from headgate.engine.errors import StreamNotFound
from headgate.engine.limits import DESCRIBED_MAX
from headgate.engine.requests.entries import CountByTime, Range, TrimArchive
from headgate.engine.requests.entries import Trim as TrimRequest
from headgate.engine.requests.keyspace import UNRESERVED, is_reserved
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
    prefix: Annotated[str, Query(description="Only names with this prefix.")] = "",
    limit: Annotated[int, Query(ge=1, description="Maximum number of streams per page.")] = 100,
    cursor: Annotated[str | None, CURSOR] = None,
    internal: Annotated[
        bool,
        Query(
            description="Also list the internal streams of the gateway, whose names begin with "
            "`__`, if you have the right `admin`. A prefix that begins with `__` lists them too."
        ),
    ] = False,
) -> Response:
    """List streams by name (SCAN TYPE stream). Internal streams are left out by default."""
    check_at_most(limit, limits.read_entries_max, pointer="/query/limit")
    page = page_after(cursor, limit)
    name = prefix.encode()
    only = None if internal or is_reserved(name) else UNRESERVED
    infos = await access.perform(ListStreams(prefix=name, only=only, **page.with_one_more))
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
        200: {
            "description": "The stream already existed with this configuration.",
            "model": Stream,
        },
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
    """Create an empty stream. The first append to a stream also creates it."""
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
    tools: ToolsDep,
    limits: LimitsDep,
    stream: StreamDep,
    full: Annotated[bool, Query(description="Also return entries, groups and consumers.")] = False,
    count: Annotated[
        int,
        Query(ge=0, description="With `full`: maximum number of each; 0 is the allowed maximum."),
    ] = 10,
) -> Response:
    """Describe a stream (XINFO STREAM). The ETag is its last id.

    With `full`, the answer has at most 5,000 groups, consumers and pending entries in total: first
    the groups, then the contents of the first groups. Counts say how much is left out. To get
    everything, list groups, consumers and pending entries. If entries are large, there are fewer
    than `count`.
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
        groups = [each.info for each in detail.groups]
        wire = await group_wire_of(access, tools, stream, groups)
        answer["group_details"] = await array_in_turns(
            detail.groups, lambda each: group_detail_wire(each, wire(each.info))
        )
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
        BoundText,
        Query(description="An id or a time; `(id` excludes the id; `-` is the first entry."),
    ] = "-",
    end: Annotated[
        BoundText, Query(description="An id or a time; `(id` excludes the id; `+` is the last id.")
    ] = "+",
    buckets: Annotated[int, Query(ge=1, le=1000, description="Maximum number of buckets.")] = 60,
) -> Histogram:
    """Count the entries of a range by the time in their ids.

    All buckets have the same duration, a whole number of milliseconds. The counts are exact:
    deleted and trimmed entries do not count. The gateway does not read any entries for this. Over
    Redis or Valkey it has to count them one by one, and refuses a range of more than 200,000
    entries with `invalid_request`.
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
    """Change the configuration of a stream with a merge patch. Null removes a setting."""
    return stream_wire(await access.perform(UpdateStream(stream, patch.to_patch())))


@router.delete(
    "/{stream}",
    operation_id="deleteStream",
    status_code=204,
    responses=responses("stream_not_found", "invalid_request"),
)
@needs(Verb.MANAGE)
async def delete_stream(access: AccessDep, stream: StreamDep) -> None:
    """Delete a stream and its groups (DEL). Blocked readers are notified."""
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
        AnId | None, Query(description="Only entries below this id. Default: all entries.")
    ] = None,
) -> Trimmed:
    """Remove archived entries permanently.

    Apart from this, only deleting an entry or the stream removes archived entries.
    """
    before_id = None if before is None else parse_id(before, field="/query/before")
    return Trimmed(removed=await access.perform(TrimArchive(stream, before_id)))
