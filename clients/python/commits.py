"""Commits: steps that the gateway executes completely or not at all."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from headgate.client.calls import Calls
from headgate.client.entries import Draft, Fields, Pairs, encoded
from headgate.client.subscription import Mode

Step = Mapping[str, Any]
"""A step of a commit, as created by the functions of this module."""


def append(
    stream: str, *entries: Fields | Pairs | Draft, if_last_id: str | None = None
) -> dict[str, Any]:
    """Return a step that appends entries to a stream.

    Args:
        stream: Name of the stream. It is created if it does not exist.
        entries: Names and values of each entry. A `Draft` may have times, but no id.
        if_last_id: Append only if this is the last id of the stream before the commit.
    """
    drafts = [Draft.of(entry).encoded() for entry in entries]
    return _step("append", stream=stream, entries=drafts, if_last_id=if_last_id)


def put_row(
    stream: str,
    key: str,
    fields: Fields | Pairs,
    *,
    if_match: str | None = None,
    if_absent: bool = False,
) -> dict[str, Any]:
    """Return a step that writes the row of a key in a table. See `Table.put`."""
    condition = {"if_match": if_match, "if_none_match": "*" if if_absent else None}
    return _step("put_row", stream=stream, key=key, **encoded(fields), **condition)


def delete_row(stream: str, key: str, *, if_match: str | None = None) -> dict[str, Any]:
    """Return a step that removes the row of a key from a table."""
    return _step("delete_row", stream=stream, key=key, if_match=if_match)


def ack(
    stream: str, group: str, ids: Sequence[str], *, deliveries: Sequence[int] | None = None
) -> dict[str, Any]:
    """Return a step that acknowledges entries of the commit's consumer.

    Args:
        stream: Stream of the entries.
        group: Group in which they are pending.
        ids: Ids of the entries.
        deliveries: Delivery count of each entry. The commit fails if one was delivered again since.
    """
    return _settling("ack", stream, group, ids, deliveries)


def nack(
    stream: str,
    group: str,
    ids: Sequence[str],
    *,
    mode: Mode = "fail",
    delay_ms: int | None = None,
    deliveries: Sequence[int] | None = None,
) -> dict[str, Any]:
    """Return a step that gives back entries of the commit's consumer. See `Job.nack` and `ack`."""
    return _settling("nack", stream, group, ids, deliveries, mode=mode, delay_ms=delay_ms)


def extend(
    stream: str, group: str, ids: Sequence[str], *, deliveries: Sequence[int] | None = None
) -> dict[str, Any]:
    """Return a step that restarts the idle time of entries of the commit's consumer. See `ack`."""
    return _settling("extend", stream, group, ids, deliveries)


def schedule(name: str, stream: str, fields: Fields | Pairs, *, at_ms: int) -> dict[str, Any]:
    """Return a step that sets a timer: it appends an entry once, at a unix time in ms."""
    return _step("schedule", name=name, stream=stream, at_ms=at_ms, **encoded(fields))


def cancel(name: str) -> dict[str, Any]:
    """Return a step that deletes a timer, or any schedule, if it exists."""
    return _step("cancel", name=name)


def _settling(
    kind: str,
    stream: str,
    group: str,
    ids: Sequence[str],
    deliveries: Sequence[int] | None,
    **more: Any,
) -> dict[str, Any]:
    counts = None if deliveries is None else list(deliveries)
    return _step(kind, stream=stream, group=group, ids=list(ids), deliveries=counts, **more)


def _step(kind: str, /, **members: Any) -> dict[str, Any]:
    return {kind: {member: value for member, value in members.items() if value is not None}}


async def commit(
    calls: Calls, steps: Sequence[Step], consumer: str | None, idempotency_key: str | None
) -> list[list[str]]:
    """Execute steps. See `AsyncClient.commit`."""
    body: dict[str, Any] = {"steps": list(steps)}
    if consumer is not None:
        body["consumer"] = consumer
    headers = {"Idempotency-Key": idempotency_key or uuid.uuid4().hex}
    answer = await calls.call("POST", "/v1/commit", body=body, headers=headers, is_repeatable=True)
    return [list(result.get("ids", ())) for result in answer["results"]]
