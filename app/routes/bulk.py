"""Bulk: plan what to read of many streams, cut a range into parts, write exactly once."""

from collections.abc import Sequence
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request, Response

from headgate.app.auth.access import Access
from headgate.app.auth.grants import Verb
from headgate.app.auth.needs import needs
from headgate.app.auth.principal import Need
from headgate.app.backends.port import Ability
from headgate.app.bulk import arrow
from headgate.app.bulk.arrow_body import ArrowBounds
from headgate.app.bulk.staged import EncodedRows, Rows
from headgate.app.bulk.staging import BatchName, ChunkName, Staging
from headgate.app.http.answers import array_in_turns, json_answer
from headgate.app.http.dependencies import (
    AccessDep,
    LimitsDep,
    StreamDep,
    check_at_most,
    gateway_of,
)
from headgate.app.http.operation import ARROW, ArrowOperation, Operation, WholeRequest
from headgate.app.http.streaming import while_present
from headgate.app.runtime.loop_delay import let_go
from headgate.app.wire.descriptions import portion_wire, split_wire
from headgate.app.wire.ids import AnId, parse_after, parse_id
from headgate.app.wire.names import NameText, check_name, text_of
from headgate.app.wire.problems import GatewayError, place_drafts, responses
from headgate.app.wire.schemas.bulk import (
    CHUNKS_MAX,
    AttemptText,
    BulkPlan,
    CommitBatch,
    Committed,
    PlanBulkRead,
    Splits,
    Staged,
    Writer,
)
from headgate.app.wire.structure import ITEMS_MAX
from headgate.engine.entry import Timing
from headgate.engine.errors import StreamError
from headgate.engine.limits import COUNT_MAX, U64_MAX
from headgate.engine.packing import EncodedDrafts
from headgate.engine.replies import Committed as EngineCommitted
from headgate.engine.requests.bulk import BulkCursor, LastCommit, PlanRead, SplitRange
from headgate.engine.requests.bulk import CommitBatch as CommitBatchRequest
from headgate.engine.requests.entries import From
from headgate.engine.requests.streams import DescribeStream

router = APIRouter(prefix="/v1", tags=["Bulk"], route_class=Operation)
chunks = APIRouter(prefix="/v1", tags=["Bulk"], route_class=ArrowOperation)

_PARTS_MAX = 10_000


def _staging(request: Request) -> Staging:
    staging: Staging = request.state.staging
    return staging


StagingDep = Annotated[Staging, Depends(_staging)]


@router.post(
    "/bulk/plan",
    operation_id="planBulkRead",
    response_model=BulkPlan,
    responses=responses(
        "not_supported",
        "malformed",
        "invalid_id",
        "unsupported_media_type",
        "invalid_request",
        "too_many_waiters",
    ),
)
@needs(Verb.READ)
async def plan_bulk_read(
    request: Request, access: AccessDep, limits: LimitsDep, plan: PlanBulkRead
) -> Response:
    """Plan the next read of each stream, so that all streams advance together.

    The gateway divides `max_entries` in proportion to the entries of each stream. A stream with
    entries gets at least one, if possible. With `wait_ms`, this is a long poll until a stream has
    an entry. A stream that does not exist has no entries; it may be created during the wait. If
    `epoch` is given and the stream now has a different epoch, the stream was deleted and created
    again, and the plan starts at its beginning.
    """
    check_at_most(plan.wait_ms, limits.wait_ms_max, pointer="/body/wait_ms")
    cursors: dict[bytes, BulkCursor] = {}
    for index, cursor in enumerate(plan.cursors):
        name = check_name(cursor.stream, pointer=f"/body/cursors/{index}/stream")
        after = parse_after(cursor.after, field=f"/body/cursors/{index}/after")
        if after is From.LAST:
            text = "should be an id, or `$` for new entries only"
            raise GatewayError("invalid_request", text, pointer=f"/body/cursors/{index}/after")
        if name in cursors:
            text = "each stream may occur only once"
            raise GatewayError("invalid_request", text, pointer=f"/body/cursors/{index}/stream")
        epoch = None if cursor.epoch is None else int(cursor.epoch)
        cursors[name] = BulkCursor(name, after, epoch)
    planning = access.perform(
        PlanRead(list(cursors.values()), entries_max=plan.max_entries, wait_ms=plan.wait_ms)
    )
    portions = await (while_present(request, planning) if plan.wait_ms else planning)
    answer: BulkPlan = {"streams": await array_in_turns(portions, portion_wire)}
    return json_answer(answer)


@router.get(
    "/streams/{stream}/splits",
    operation_id="splitRange",
    response_model=Splits,
    responses=responses("invalid_id", "stream_not_found", "invalid_request", "not_supported"),
)
@needs(Verb.READ)
async def split_range(
    access: AccessDep,
    stream: StreamDep,
    after: Annotated[AnId, Query(description="Only entries above this id.")] = "0-0",
    to: Annotated[
        AnId | None,
        Query(description="Only entries up to this id, inclusive. Default: the last id."),
    ] = None,
    parts: Annotated[int, Query(ge=1, le=_PARTS_MAX, description="Maximum number of parts.")] = 1,
) -> Response:
    """Split a range into parts that differ by at most one entry.

    An empty range has no parts.
    """
    low = parse_id(after, field="/query/after")
    info = await access.perform(DescribeStream(stream))
    high = info.last_id if to is None else parse_id(to, field="/query/to", missing_seq=U64_MAX)
    cut = await access.perform(SplitRange(stream, low, high, parts))
    splits: Splits = {
        "stream": text_of(stream),
        "epoch": str(info.epoch),
        "splits": await array_in_turns(cut, split_wire),
    }
    return json_answer(splits)


def writer_name(
    access: AccessDep,
    writer: Annotated[NameText, Path(description="Name of the writer.", examples=["nightly-load"])],
) -> bytes:
    """Return the name of the writer in the path, scoped to the caller."""
    return access.own_writer(check_name(writer, pointer="/path/writer"))


WriterDep = Annotated[bytes, Depends(writer_name)]
BatchNumber = Annotated[
    int,
    Path(ge=0, le=COUNT_MAX, description="Number of the batch. The numbers of a writer increase."),
]
Number = Annotated[int, Path(ge=0, le=COUNT_MAX)]


@chunks.put(
    "/bulk/writers/{writer}/batches/{batch}/partitions/{partition}/attempts/{attempt}"
    "/chunks/{chunk}",
    operation_id="stageChunk",
    responses=responses(
        "not_supported",
        "malformed",
        "invalid_id",
        "too_large",
        "unsupported_media_type",
        "invalid_request",
        "extra_missing",
        "unavailable",
    ),
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {ARROW: {"schema": {"type": "string", "format": "binary"}}},
        }
    },
)
@needs(Verb.APPEND)
async def stage_chunk(
    request: WholeRequest,
    access: AccessDep,
    staging: StagingDep,
    limits: LimitsDep,
    writer: WriterDep,
    batch: BatchNumber,
    partition: Number,
    attempt: Annotated[AttemptText, Path()],
    chunk: Number,
    stream: Annotated[
        NameText | None, Query(description="Stream for rows that do not name one.")
    ] = None,
) -> Staged:
    """Stage a chunk of a batch. Nothing is appended until the batch is committed.

    The body is an Arrow IPC stream as in `appendEntries`, with an optional column `stream` (utf8).
    `delay_ms` and `ttl_ms` count from now, not from the commit. A chunk that is staged again
    replaces the first one. The gateway discards uncommitted chunks after `staged_ttl_ms` without a
    further chunk.
    """
    gateway_of(request).require(Ability.BULK)
    name = None if stream is None else check_name(stream, pointer="/query/stream")
    bounds = ArrowBounds(ITEMS_MAX, limits.body_bytes_max, may_name_streams=True)
    read = partial(_rows, request.content, name, bounds, staging.wall_ms())
    try:
        rows = await arrow.threads_of(request).call_if_awaited(read)
    except StreamError as error:
        place_drafts(error, lambda index: (index,))
        raise
    access.require(Need((Verb.APPEND,), each) for each in rows.streams)
    size_bytes = await staging.put(
        BatchName(writer, batch), ChunkName(partition, chunk, attempt), rows
    )
    return Staged(entries=len(rows), size_bytes=size_bytes)


def _rows(body: bytes, name: bytes | None, bounds: ArrowBounds, now_ms: int) -> Rows | EncodedRows:
    drafts, texts, _ = arrow.decode(body, bounds)
    if texts is None:
        texts = [None] * len(drafts)
    names: dict[str | None, bytes] = {} if name is None else {None: name}
    for row, text in enumerate(texts):
        if text in names:
            continue
        pointer = f"/body/{row}/stream"
        if text is None:
            why = "name the stream here, or with ?stream= for all rows"
            raise GatewayError("invalid_request", why, pointer=pointer)
        names[text] = check_name(text, pointer=pointer)
    streams = [names[text] for text in texts]
    if isinstance(drafts, EncodedDrafts) and len(set(streams)) == 1:
        return EncodedRows.of(streams[0], drafts)
    fixed = [
        draft if draft.timing is None else draft._replace(timing=_fixed(draft.timing, now_ms, row))
        for row, draft in enumerate(drafts)
    ]
    return Rows.of(streams, fixed)


def _fixed(timing: Timing, now_ms: int, row: int) -> Timing | None:
    """Return absolute times, so that they do not depend on when the commit comes."""
    times = timing.at(now_ms, row)
    return None if times is None else times.timing


@router.post(
    "/bulk/writers/{writer}/batches/{batch}/commit",
    operation_id="commitBatch",
    responses=responses(
        "not_supported",
        "malformed",
        "stream_not_found",
        "id_not_greater",
        "staged_missing",
        "limit_reached",
        "unsupported_media_type",
        "invalid_request",
        "unavailable",
        "memory_full",
    ),
)
@needs(Verb.APPEND)
async def commit_batch(
    access: AccessDep,
    staging: StagingDep,
    writer: WriterDep,
    batch: BatchNumber,
    commit: CommitBatch,
) -> Committed:
    """Append the staged chunks of the given attempts, all or none, exactly once.

    The chunks are appended in the order of partition and chunk. In the same step, the gateway
    records that the writer has committed this batch. If the writer commits this batch or an earlier
    one again, nothing is appended and the answer is `repeated`. After the commit, the gateway
    discards everything that was staged for the batch.
    """
    name = BatchName(writer, batch)
    committed = await _committed(access, name)
    if committed is None:
        try:
            drafts = await staging.take(name, _chunks(commit))
        except GatewayError:
            committed = await _committed(access, name)  # by another request, a moment ago
            if committed is None:
                raise
        else:
            try:
                committed = await access.perform(
                    CommitBatchRequest(writer, batch, drafts, create_streams=commit.create_streams)
                )
            finally:
                for rows in drafts.values():
                    if isinstance(rows, list):
                        await let_go(rows)
    await staging.drop(name)
    return Committed.of(committed)


async def _committed(access: Access, name: BatchName) -> EngineCommitted | None:
    last = await access.perform(LastCommit(name.writer))
    if last is None or name.batch > last.batch:
        return None
    return EngineCommitted(is_repeat=True, streams=[])


def _chunks(commit: CommitBatch) -> Sequence[ChunkName]:
    if sum(attempt.chunks for attempt in commit.attempts) > CHUNKS_MAX:
        text = f"at most {CHUNKS_MAX} chunks in all"
        raise GatewayError("invalid_request", text, pointer="/body/attempts")
    seen: set[int] = set()
    for index, attempt in enumerate(commit.attempts):
        if attempt.partition in seen:
            pointer = f"/body/attempts/{index}/partition"
            raise GatewayError(
                "invalid_request", "each partition may occur only once", pointer=pointer
            )
        seen.add(attempt.partition)
    return sorted(
        ChunkName(attempt.partition, number, attempt.attempt)
        for attempt in commit.attempts
        for number in range(attempt.chunks)
    )


@router.delete(
    "/bulk/writers/{writer}/batches/{batch}",
    operation_id="abortBatch",
    status_code=204,
    responses=responses("invalid_request"),
)
@needs(Verb.APPEND)
async def abort_batch(staging: StagingDep, writer: WriterDep, batch: BatchNumber) -> None:
    """Discard the staged chunks of a batch, if there are any. A committed batch stays."""
    await staging.drop(BatchName(writer, batch))


@router.get(
    "/bulk/writers/{writer}",
    operation_id="describeWriter",
    responses=responses("invalid_request", "not_supported"),
)
@needs(Verb.APPEND)
async def describe_writer(request: Request, access: AccessDep, writer: WriterDep) -> Writer:
    """Describe the last commit of a writer. The gateway remembers it for 90 days.

    A writer belongs to the principal that commits in its name.
    """
    last = await access.perform(LastCommit(writer))
    return Writer(
        writer=request.path_params["writer"],
        last_batch=None if last is None else last.batch,
        committed_at_ms=None if last is None else last.at_ms,
    )
