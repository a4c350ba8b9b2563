"""Tables: read and change the latest entry of each key of a stream."""

from collections.abc import AsyncGenerator, Callable
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
from msgspec.structs import replace

from headgate.app.auth.access import Access
from headgate.app.auth.grants import Verb
from headgate.app.auth.needs import needs
from headgate.app.bulk import arrow
from headgate.app.bulk.rows import arrow_rows
from headgate.app.http.answers import array_in_turns, json_answer, lines_in_turns
from headgate.app.http.dependencies import (
    AccessDep,
    LimitsDep,
    StreamDep,
    access_of,
    check_at_most,
    gateway_of,
)
from headgate.app.http.idempotency import WriterKeyDep
from headgate.app.http.operation import ARROW, Operation, prompt
from headgate.app.http.streaming import PatientResponse, while_present, while_valid
from headgate.app.transport.scopes import path_of, request_id_of
from headgate.app.wire.encoding import row_wire, unbroken
from headgate.app.wire.filters import Selection, narrowed
from headgate.app.wire.ids import AnId, EtagText, parse_etag, parse_id
from headgate.app.wire.problems import (
    GatewayError,
    RowIsAnother,
    place_drafts,
    problem_of,
    responses,
)
from headgate.app.wire.schemas.tables import (
    Row,
    RowFields,
    RowWritten,
    TableRows,
    check_key,
    key_of_text,
    key_text,
)
from headgate.engine import replies
from headgate.engine.entry import Draft, Entry
from headgate.engine.errors import RowChanged, StreamError
from headgate.engine.requests.entries import Read, RowKeys, StreamCursor
from headgate.engine.requests.tables import DeleteRow, PutRow, ReadRow, ReadTable, RowCondition

router = APIRouter(prefix="/v1", tags=["Tables"], route_class=Operation)

_NDJSON = "application/x-ndjson"
_PAGE_ROWS = 1_000
_PAGE_BYTES = 2**20
_ABSENT = "no row has this key"


def row_key(key: Annotated[str, Path(description="Key of the row.", examples=["42"])]) -> bytes:
    return check_key(key_of_text(key, pointer="/path/key"), pointer="/path/key")


KeyDep = Annotated[bytes, Depends(row_key)]


def row_condition(
    if_match: Annotated[
        EtagText | None,
        Header(alias="If-Match", description="Only if this ETag is the id of the row."),
    ] = None,
    if_none_match: Annotated[
        str | None,
        Header(alias="If-None-Match", description="With `*`: only if the row does not exist."),
    ] = None,
) -> RowCondition | None:
    if if_none_match is None:
        return None if if_match is None else RowCondition(parse_etag(if_match))
    if if_match is not None or if_none_match.strip() != "*":
        text = "should be *, without If-Match"
        raise GatewayError("invalid_request", text, pointer="/header/If-None-Match")
    return RowCondition()


ConditionDep = Annotated[RowCondition | None, Depends(row_condition)]


def selection_query(
    columns: Annotated[
        str | None,
        Query(description="Fields to send, as `a,b` or as a JSON list. Default: all fields."),
    ] = None,
    filter: Annotated[  # noqa: A002
        str | None, Query(description="A filter as JSON. Only matching rows are sent.")
    ] = None,
) -> Selection:
    return Selection.parse(filter, columns)


@router.get(
    "/streams/{stream}/table",
    operation_id="readTable",
    response_model=TableRows,
    responses={
        200: {
            "content": {
                _NDJSON: {"schema": {"type": "string"}},
                ARROW: {"schema": {"type": "string", "format": "binary"}},
            },
            "description": "Rows.",
        },
        **responses(
            "invalid_id",
            "stream_not_found",
            "wrong_type",
            "gone",
            "invalid_request",
            "unavailable",
            "not_supported",
            "extra_missing",
        ),
    },
)
@needs(Verb.READ)
async def read_table(
    request: Request,
    access: AccessDep,
    limits: LimitsDep,
    stream: StreamDep,
    selection: Annotated[Selection, Depends(selection_query)],
    prefix: Annotated[str, Query(description="Only keys that begin with this.")] = "",
    after_key: Annotated[
        str | None, Query(description="Only keys after this one: `next_after_key` of a page.")
    ] = None,
    as_of: Annotated[
        AnId | None,
        Query(description="Return the rows as they were at this id: `as_of` of the first page."),
    ] = None,
    limit: Annotated[int, Query(ge=1, description="Maximum number of rows.")] = 100,
) -> Response:
    """Read the rows of a table: the latest entry of each key, in byte order of the keys.

    A stream is a table if it has a `key_field`. To read the next page, pass `next_after_key` and
    `as_of`. All pages show the rows as of the same id, whatever is appended meanwhile. Then follow
    the stream after that id to get all later changes. A page may have fewer rows than `limit`. It
    is the last page only if `next_after_key` is null.

    Rows whose entries are deleted or trimmed disappear at once. The answer is `gone` if the gateway
    no longer knows the earlier state of the table: a page came more than a minute after the
    previous one, too much has changed, or an entry to be shown was deleted. Start again from the
    first page.

    With `Accept: application/x-ndjson`, rows are streamed, one per line, and `limit` may be as
    large as you like; the header `Headgate-As-Of` has the id. With `Accept:
    application/vnd.apache.arrow.stream`, rows are streamed as Arrow: `key` (binary), `id` (utf8)
    and `fields` (a map of binary).
    """
    asked = ReadTable(
        stream,
        prefix.encode(errors="surrogatepass"),
        None if after_key is None else key_of_text(after_key, pointer="/query/after_key"),
        limit,
        None if as_of is None else parse_id(as_of, field="/query/as_of"),
        selection.text,
        limits.read_bytes_max,
    )
    accepted = request.headers.get("accept", "")
    if _NDJSON in accepted:
        return await _stream_rows(request, asked, selection, _NDJSON)
    if ARROW in accepted:
        await arrow.threads_of(request).call_if_awaited(arrow.library)
        return await _stream_rows(request, asked, selection, ARROW)
    check_at_most(limit, limits.read_entries_max, pointer="/query/limit")
    page = await while_present(request, access.perform(asked))
    answer: TableRows = {
        "rows": await array_in_turns(page.rows, _wire_of(selection)),
        "next_after_key": None if page.after_key is None else key_text(page.after_key),
        "as_of": str(page.as_of),
    }
    return json_answer(answer)


def _wire_of(selection: Selection) -> Callable[[replies.Row], Row]:
    if selection.columns is None:
        return row_wire
    names = frozenset(selection.columns)

    def wire(row: replies.Row) -> Row:
        return row_wire(row._replace(fields=narrowed(Entry(row.id, row.fields), names).fields))

    return wire


async def _stream_rows(
    request: Request, asked: ReadTable, selection: Selection, media_type: str
) -> Response:
    access, gateway = access_of(request), gateway_of(request)
    asked = replace(asked, size_bytes_max=_PAGE_BYTES)
    first = await access.perform(replace(asked, limit=min(asked.limit, _PAGE_ROWS)))
    pages = _pages(access, asked, first)
    if media_type == _NDJSON:
        parts = _row_lines(request, pages, selection)
    else:
        parts = arrow_rows(asked.stream, pages, arrow.threads_of(request), selection.columns)
    headers = {"Headgate-As-Of": str(first.as_of)}
    patience_ms = gateway.limits.send_ms_max
    return PatientResponse(
        while_valid(request, parts), media_type=media_type, patience_ms=patience_ms, headers=headers
    )


async def _pages(
    access: Access, asked: ReadTable, page: replies.TablePage
) -> AsyncGenerator[replies.TablePage, None]:
    """Yield a page, and those that follow it, up to the limit."""
    left = asked.limit
    while True:
        yield page
        left -= len(page.rows)
        if left <= 0 or page.after_key is None:
            return
        limit = min(left, _PAGE_ROWS)
        asked = replace(asked, after_key=page.after_key, as_of=page.as_of, limit=limit)
        page = await access.perform(asked)


async def _row_lines(
    request: Request, pages: AsyncGenerator[replies.TablePage, None], selection: Selection
) -> AsyncGenerator[bytes, None]:
    """Yield the rows of pages. If the walk cannot go on, the last line is the problem."""
    try:
        async for page in pages:
            if page.rows:
                yield await lines_in_turns(page.rows, _wire_of(selection))
    except (StreamError, GatewayError) as error:
        problem = problem_of(error, path_of(request.scope))
        problem.request_id = request_id_of(request.scope)
        yield unbroken(problem.model_dump_json(exclude_none=True).encode()) + b"\n"


@router.get(
    "/streams/{stream}/table/{key:path}",
    operation_id="readRow",
    response_model=Row,
    responses=responses(
        "invalid_id",
        "stream_not_found",
        "entry_not_found",
        "wrong_type",
        "invalid_request",
        "too_many_waiters",
        "unavailable",
        "not_supported",
    ),
)
@prompt
@needs(Verb.READ)
async def read_row(
    request: Request,
    access: AccessDep,
    limits: LimitsDep,
    stream: StreamDep,
    key: KeyDep,
    after: Annotated[
        AnId | None, Query(description="With `wait_ms`: wait for a change after this id.")
    ] = None,
    wait_ms: Annotated[
        int, Query(ge=0, description="With `after`: how long to wait for a change.")
    ] = 0,
) -> Response:
    """Read one row: the latest entry of a key. The ETag is its id.

    With `after` and `wait_ms`, the gateway answers once an entry with this key has an id above
    `after`, or when the time is over.
    """
    check_at_most(wait_ms, limits.wait_ms_max, pointer="/query/wait_ms")
    since = None if after is None else parse_id(after, field="/query/after")
    if since is None and wait_ms:
        text = "wait_ms requires after, the id after which to wait for a change"
        raise GatewayError("invalid_request", text, pointer="/query/wait_ms")
    row = (await access.perform(ReadRow(stream, key))).row
    if since is not None and wait_ms and (row is None or row.id <= since):
        cursors, keys = [StreamCursor(stream, since)], RowKeys(key, is_prefix=False)
        change = Read(cursors, limit=1, wait_ms=wait_ms, keys=keys)
        await while_present(request, access.perform(change))
        row = (await access.perform(ReadRow(stream, key))).row
    if row is None:
        raise GatewayError("entry_not_found", _ABSENT, pointer="/path/key")
    response = json_answer(row_wire(row))
    response.headers["ETag"] = f'"{row.id}"'
    return response


_CHANGE_PROBLEMS = responses(
    "malformed",
    "invalid_id",
    "stream_not_found",
    "entry_not_found",
    "stream_closed",
    "wrong_type",
    "limit_reached",
    "row_changed",
    "too_large",
    "unsupported_media_type",
    "invalid_request",
    "idempotency_mismatch",
    "unavailable",
    "memory_full",
    "not_supported",
)


@router.put(
    "/streams/{stream}/table/{key:path}",
    operation_id="putRow",
    response_model=RowWritten,
    responses=_CHANGE_PROBLEMS,
)
@prompt
@needs(Verb.APPEND)
async def put_row(
    access: AccessDep,
    stream: StreamDep,
    key: KeyDep,
    row: RowFields,
    condition: ConditionDep,
    idempotency_key: WriterKeyDep,
    response: Response,
) -> RowWritten:
    """Write the row of a key: append an entry. The gateway adds the key field.

    With `If-Match` and the ETag of the row, or with `If-None-Match: *`, nothing is appended unless
    the row is in the expected state. Otherwise the problem is `row_changed` and has the current
    row.
    """
    fields = row.to_fields()
    idempotent = None
    if idempotency_key is not None:
        draft = Draft(None, (b"", key, *fields))
        idempotent = await idempotency_key.of([draft], is_batch=False)
    request = PutRow(stream, key, fields, condition, idempotent)
    try:
        added = await access.perform(request)
    except StreamError as error:
        place_drafts(error, lambda _: ())  # the body is the entry
        raise await _with_row(access, stream, error) from None
    return _written(response, key, added)


@router.delete(
    "/streams/{stream}/table/{key:path}",
    operation_id="deleteRow",
    response_model=RowWritten,
    responses=_CHANGE_PROBLEMS,
)
@prompt
@needs(Verb.APPEND)
async def delete_row(
    access: AccessDep,
    stream: StreamDep,
    key: KeyDep,
    condition: ConditionDep,
    idempotency_key: WriterKeyDep,
    response: Response,
) -> RowWritten:
    """Remove the row of a key: append an entry with the `tombstone_field`.

    `If-Match` works as in `putRow`.
    """
    idempotent = None
    if idempotency_key is not None:
        idempotent = await idempotency_key.of([Draft(None, (b"", key))], is_batch=False)
    try:
        added = await access.perform(DeleteRow(stream, key, condition, idempotent))
    except StreamError as error:
        raise await _with_row(access, stream, error) from None
    if added is None:
        raise GatewayError("entry_not_found", _ABSENT, pointer="/path/key")
    return _written(response, key, added)


def _written(response: Response, key: bytes, added: replies.Added) -> RowWritten:
    if added.is_repeat:
        response.headers["Idempotent-Replayed"] = "true"
    [entry_id] = added.ids
    response.headers["ETag"] = f'"{entry_id}"'
    return {"key": key_text(key), "id": str(entry_id)}


async def _with_row(access: Access, stream: bytes, error: StreamError) -> Exception:
    """Return the error, with the row as it is if that is the matter and it may be read."""
    if not isinstance(error, RowChanged):
        return error
    try:
        row = (await access.perform(ReadRow(stream, error.key))).row
    except (StreamError, GatewayError):
        row = None
    return RowIsAnother(str(error), None if row is None else row_wire(row))
