"""Commits: change streams, tables and deliveries together, or not at all."""

from typing import Annotated

from fastapi import APIRouter, Depends, Response

from headgate.app.auth.needs import needs
from headgate.app.http.dependencies import AccessDep, OptionalConsumerDep
from headgate.app.http.idempotency import REPLAYED, WriterKey, writer_key
from headgate.app.http.operation import Operation, plain_body, prompt
from headgate.app.wire.plain_commits import plain_commit
from headgate.app.wire.problems import responses
from headgate.app.wire.schemas.commits import CommitDone, CommitInput, commit_wire
from headgate.engine.errors import StreamError

router = APIRouter(prefix="/v1", tags=["Delivery"], route_class=Operation)


@router.post(
    "/commit",
    operation_id="commit",
    responses={
        200: {"headers": REPLAYED},
        **responses(
            "malformed",
            "invalid_id",
            "consumer_required",
            "consumer_conflict",
            "stream_not_found",
            "group_not_found",
            "not_yours",
            "stream_closed",
            "wrong_type",
            "limit_reached",
            "id_not_greater",
            "last_id_mismatch",
            "row_changed",
            "unsupported_media_type",
            "invalid_request",
            "idempotency_mismatch",
            "not_supported",
            "unavailable",
            "memory_full",
        ),
    },
)
@needs()
@prompt
@plain_body(plain_commit)
async def commit(
    access: AccessDep,
    consumer: OptionalConsumerDep,
    key: Annotated[WriterKey | None, Depends(writer_key)],
    response: Response,
    request: CommitInput,  # or what `plain_commit` makes of its body
) -> CommitDone:
    """Apply several steps atomically: all of them at one moment, or none.

    A worker can append its results and acknowledge the entries that it processed in one commit. A
    crash then leaves both or neither. `ack`, `nack` and `extend` apply only to entries that are
    pending with the consumer and, with `deliveries`, have this delivery count. Otherwise the commit
    fails with `not_yours`, and the problem says who holds the entries. If two workers process the
    same entry, only one of them commits a result.

    The conditions `if_last_id` and `if_match` refer to the state before the commit. All appends to
    one stream are contiguous and in order. If a commit fails, nothing has changed, and the problem
    has the number of the `step`, from 0.

    With an `Idempotency-Key`, you can repeat a commit whose answer was lost. The repeat changes
    nothing and returns the same answer. Each step needs the same rights as its operation.
    """
    steps = request.to_request(consumer, *key or ())
    try:
        done = await access.perform(steps)
    except StreamError as error:
        error.location = request.place(error.location)
        raise
    if done.is_repeat:
        response.headers["Idempotent-Replayed"] = "true"
    return commit_wire(done)
