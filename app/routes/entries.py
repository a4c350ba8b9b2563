"""Entries: read and delete them by their ids."""

import asyncio
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Response

from headgate.app.auth.grants import Verb
from headgate.app.auth.needs import needs
from headgate.app.cloud_events.event import STRUCTURED, event_of
from headgate.app.cloud_events.formats import text_in_turns
from headgate.app.http.answers import json_answer, outcomes_array
from headgate.app.http.dependencies import AccessDep, LimitsDep, StreamDep, check_at_most
from headgate.app.http.operation import Operation, WholeRequest, accepts, prompt
from headgate.app.wire.encoding import add_times, entry_wire
from headgate.app.wire.ids import parse_id, parse_ids
from headgate.app.wire.names import text_of
from headgate.app.wire.problems import GatewayError, responses
from headgate.app.wire.schemas.entries import REFERENCES, DeletedEntries, Deletions, Entry
from headgate.engine.entry import EntryId
from headgate.engine.errors import EntryNotFound
from headgate.engine.replies import Deletion
from headgate.engine.requests.entries import Delete, FindTimes, Range, References

router = APIRouter(prefix="/v1", tags=["Entries"], route_class=Operation)


def entry_id_path(
    # Without its pattern: `batch` and `delete` are at this place as well, with other methods.
    id: Annotated[str, Path(description="Id of the entry.", examples=["1718000000000-0"])],  # noqa: A002
) -> EntryId:
    return parse_id(id, field="/path/id")


EntryIdDep = Annotated[EntryId, Depends(entry_id_path)]


@router.get(
    "/streams/{stream}/entries/{id}",
    operation_id="getEntry",
    response_model=Entry,
    responses=responses("invalid_id", "stream_not_found", "entry_not_found", "invalid_request"),
)
@needs(Verb.READ)
@prompt
async def get_entry(
    request: WholeRequest, access: AccessDep, stream: StreamDep, entry_id: EntryIdDep
) -> Response:
    """Read one entry (XRANGE).

    With `Accept: application/cloudevents+json`, the answer is a `CloudEvent`, as in `readEntries`.
    """
    entries, times = await asyncio.gather(
        access.perform(Range(stream, entry_id, entry_id)),
        access.perform(FindTimes(stream, [entry_id])),
    )
    if not entries:
        raise EntryNotFound(stream, entry_id)
    if accepts(request, STRUCTURED):
        event = event_of(text_of(stream), entries[0])
        return Response(await text_in_turns(event), media_type=STRUCTURED)
    wire = entry_wire(entries[0])
    add_times(wire, times.get(entry_id))
    return json_answer(wire)


@router.delete(
    "/streams/{stream}/entries/{id}",
    operation_id="deleteEntry",
    status_code=204,
    responses=responses(
        "invalid_id", "stream_not_found", "entry_not_found", "entry_referenced", "invalid_request"
    ),
)
@needs(Verb.MANAGE)
@prompt
async def delete_entry(
    access: AccessDep,
    stream: StreamDep,
    entry_id: EntryIdDep,
    references: Annotated[References, Query(description=REFERENCES)] = References.KEEP,
) -> None:
    """Delete one entry (XDELEX), also from the archive.

    A pending entry stays pending unless `references` says otherwise.
    """
    [outcome] = await access.perform(Delete(stream, [entry_id], references, archived=True))
    if outcome is Deletion.REFERENCED:
        raise GatewayError("entry_referenced", f"a group still needs entry {entry_id}")
    if outcome is Deletion.NOT_FOUND:
        raise EntryNotFound(stream, entry_id)


@router.post(
    "/streams/{stream}/entries/delete",
    operation_id="deleteEntries",
    response_model=DeletedEntries,
    responses=responses(
        "malformed", "invalid_id", "stream_not_found", "unsupported_media_type", "invalid_request"
    ),
)
@needs(Verb.MANAGE)
async def delete_entries(
    access: AccessDep, limits: LimitsDep, stream: StreamDep, request: Deletions
) -> Response:
    """Delete entries (XDELEX), also from the archive, with the outcome for each.

    Pending entries stay pending unless `references` says otherwise.
    """
    check_at_most(len(request.ids), limits.ids_max, pointer="/body/ids")
    ids = parse_ids(request.ids)
    outcomes = await access.perform(Delete(stream, ids, request.references, archived=True))
    answer: DeletedEntries = {"results": await outcomes_array(ids, outcomes)}
    return json_answer(answer)
