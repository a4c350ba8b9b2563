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
    """Carry out steps together: all of them, at one moment, or none.

    A worker appends its results and acknowledges what it worked on in one commit, so a crash leaves
    both or neither. `ack`, `nack` and `extend` hold only for entries that are pending with the
    consumer now and, with `deliveries`, were delivered so often. Otherwise the commit fails with
    `not_yours`, and the problem says who has them: of two workers that did the same work, only one
    has a result.

    Conditions (`if_last_id`, `if_match`) are about the streams as they are before the commit. All
    appends to one stream stand together, in order. A problem has the number of its `step`, from 0,
    and then nothing has changed.

    With an `Idempotency-Key` a commit can be sent again if its answer is lost: it changes nothing
    and has the same answer. Each step needs the right that it needs by itself.
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
