"""Problems: what the gateway refuses, as exceptions named after its codes (RFC 9457)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar


class HeadgateError(Exception):
    """Base of all errors between a program and the gateway."""


class Unreachable(HeadgateError):
    """The gateway could not be reached in time. Nothing was done."""


class AnswerLost(HeadgateError):
    """The connection ended before the answer came. What was asked may have been done."""


class UnexpectedAnswer(HeadgateError):
    """Something that is not a gateway answered, such as a proxy."""

    def __init__(self, status: int, url: str) -> None:
        super().__init__(f"{status} from {url}, which is no answer of a gateway")
        self.status = status


class Problem(HeadgateError):
    """The gateway refused a request. Nothing was changed.

    Attributes:
        code: what happened, for programs. Each code has its own class below.
        status: HTTP status.
        detail: what happened, for people.
        retryable: whether the same request may succeed later.
        retry_after_s: when, in seconds; None: the gateway does not say.
        errors: the fields that are wrong, each with `pointer` and `detail`.
        step: the number of the step of a commit that failed, from 0.
        last_id: the last id of the stream (`LastIdMismatch`).
        leader: the address of the gateway that leads, if it is known (`NotLeader`).
    """

    code: ClassVar[str] = ""

    def __init__(self, problem: Mapping[str, Any]) -> None:
        self.detail: str = problem.get("detail", "")
        self.status: int = problem.get("status", 0)
        self.retryable: bool = problem.get("retryable", False)
        retry_after_ms = problem.get("retry_after_ms")
        self.retry_after_s: float | None = None if retry_after_ms is None else retry_after_ms / 1000
        self.errors: list[dict[str, str]] = problem.get("errors") or []
        self.step: int | None = problem.get("step")
        self.last_id: str | None = problem.get("last_id")
        self.leader: str | None = problem.get("leader")
        faults = [f"{error['pointer']}: {error['detail']}" for error in self.errors]
        places = "".join(f"\n  {fault}" for fault in faults if fault != self.detail)
        super().__init__(f"{problem.get('code', 'problem')}: {self.detail}{places}")


class Malformed(Problem):
    """The body or a parameter cannot be read."""

    code = "malformed"


class InvalidId(Problem):
    """A text is no entry id."""

    code = "invalid_id"


class ConsumerRequired(Problem):
    """The request has to name a consumer."""

    code = "consumer_required"


class ConsumerConflict(Problem):
    """The request names two consumers."""

    code = "consumer_conflict"


class Unauthenticated(Problem):
    """There is no credential, or it is not valid."""

    code = "unauthenticated"


class Forbidden(Problem):
    """The credential does not allow this."""

    code = "forbidden"


class OriginRefused(Problem):
    """Pages of this origin may not use the gateway."""

    code = "origin_refused"


class StreamNotFound(Problem):
    """The stream does not exist."""

    code = "stream_not_found"


class GroupNotFound(Problem):
    """The group does not exist."""

    code = "group_not_found"


class EntryNotFound(Problem):
    """The entry does not exist."""

    code = "entry_not_found"


class EntryReferenced(Problem):
    """Groups still have to acknowledge the entry."""

    code = "entry_referenced"


class NotFound(Problem):
    """There is nothing at this path."""

    code = "not_found"


class MethodNotAllowed(Problem):
    """The path has other methods."""

    code = "method_not_allowed"


class NotAcceptable(Problem):
    """The gateway has no answer of this media type."""

    code = "not_acceptable"


class GroupExists(Problem):
    """The group exists with other settings."""

    code = "group_exists"


class StreamExists(Problem):
    """The stream exists with other settings."""

    code = "stream_exists"


class StreamClosed(Problem):
    """The stream is closed and takes no more entries."""

    code = "stream_closed"


class ContentTypeMismatch(Problem):
    """The durable stream has another content type."""

    code = "content_type_mismatch"


class OutOfSequence(Problem):
    """The append to the durable stream is not the next one of its writer."""

    code = "out_of_sequence"


class ProducerFenced(Problem):
    """Another producer of this name has begun a later epoch."""

    code = "producer_fenced"


class Gone(Problem):
    """The place in the stream, or a stream that forks refer to, is gone."""

    code = "gone"


class WrongType(Problem):
    """A Redis key holds something that the gateway did not put there."""

    code = "wrong_type"


class IdNotGreater(Problem):
    """The id is not greater than the last id of the stream."""

    code = "id_not_greater"


class StagedMissing(Problem):
    """A chunk of the batch has not arrived."""

    code = "staged_missing"


class LimitReached(Problem):
    """The maximum number of these exists already."""

    code = "limit_reached"


class LastIdMismatch(Problem):
    """Entries came between; `last_id` is the last one."""

    code = "last_id_mismatch"


class RowChanged(Problem):
    """The row is not as the request expects it; `row` is the row as it is, or None."""

    code = "row_changed"

    def __init__(self, problem: Mapping[str, Any]) -> None:
        super().__init__(problem)
        self.row: Mapping[str, Any] | None = problem.get("row")


class NotYours(Problem):
    """Entries of a commit are not pending with its consumer; `held` says who has each."""

    code = "not_yours"

    def __init__(self, problem: Mapping[str, Any]) -> None:
        super().__init__(problem)
        self.held: Sequence[Mapping[str, Any]] = problem.get("held", ())


class LastAdminKey(Problem):
    """The key is the last active one with `admin`, so it cannot be revoked."""

    code = "last_admin_key"


class TooLarge(Problem):
    """The request or the answer is too large."""

    code = "too_large"


class UnsupportedMediaType(Problem):
    """The gateway does not read bodies of this media type."""

    code = "unsupported_media_type"


class HeaderTooLarge(Problem):
    """The headers are too large."""

    code = "header_too_large"


class InvalidRequest(Problem):
    """Fields of the request are wrong; `errors` says which."""

    code = "invalid_request"


class IdempotencyMismatch(Problem):
    """The idempotency key was used for something else."""

    code = "idempotency_mismatch"


class TooManyWaiters(Problem):
    """Too many reads are waiting."""

    code = "too_many_waiters"


class TooManyConnections(Problem):
    """The principal has as many connections as it may have."""

    code = "too_many_connections"


class RateLimited(Problem):
    """The principal sends more than it may."""

    code = "rate_limited"


class Overloaded(Problem):
    """The gateway has more to do than it can."""

    code = "overloaded"


class Unavailable(Problem):
    """The gateway cannot store changes now."""

    code = "unavailable"


class NotLeader(Problem):
    """The gateway is a standby; `leader` is the address of the one that leads, if known."""

    code = "not_leader"


class Draining(Problem):
    """The gateway is about to stop."""

    code = "draining"


class CutOff(Problem):
    """An operator has ended the connection."""

    code = "cut_off"


class MemoryFull(Problem):
    """The memory for streams is full."""

    code = "memory_full"


class ExtraMissing(Problem):
    """The gateway lacks an optional package."""

    code = "extra_missing"


class NotSupported(Problem):
    """The backend of the gateway does not have this ability."""

    code = "not_supported"


class Internal(Problem):
    """The gateway has a defect; `detail` has the number of the incident."""

    code = "internal"


PROBLEMS: dict[str, type[Problem]] = {each.code: each for each in Problem.__subclasses__()}


def problem_in(body: bytes | bytearray) -> Problem | None:
    """Return the exception for the body of an answer; None if it is no problem of a gateway."""
    try:
        problem = json.loads(body)
    except ValueError:
        return None
    return problem_of(problem) if isinstance(problem, dict) else None


def problem_of(problem: Mapping[str, Any]) -> Problem:
    """Return the exception for a problem; an unknown code is a plain `Problem`."""
    return PROBLEMS.get(problem.get("code", ""), Problem)(problem)
