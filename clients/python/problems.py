"""Problems: refusals of the gateway as exceptions, one class for each problem code (RFC 9457)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar


class HeadgateError(Exception):
    """Base class of all errors of the client."""


class Unreachable(HeadgateError):
    """The gateway could not be reached in time. Nothing was changed."""


class AnswerLost(HeadgateError):
    """The connection ended before the answer arrived. The request may have been processed."""


class UnexpectedAnswer(HeadgateError):
    """The answer did not come from a gateway, but from a proxy, for example."""

    def __init__(self, status: int, url: str) -> None:
        super().__init__(f"{status} from {url}: this answer is not from a gateway")
        self.status = status


class Problem(HeadgateError):
    """The gateway refused a request. Nothing was changed.

    Attributes:
        code: Problem code, for programs. Each code has its own class below.
        status: HTTP status.
        detail: Description of the problem, for people.
        retryable: Whether the same request may succeed later.
        retry_after_s: When to retry, in seconds. None: the gateway does not say.
        errors: The invalid fields, each with `pointer` and `detail`.
        step: For a commit, the index of the step that failed, from 0.
        last_id: Last id of the stream (`LastIdMismatch`).
        leader: Address of the leading gateway, if known (`NotLeader`).
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
    """The body or a parameter cannot be parsed."""

    code = "malformed"


class InvalidId(Problem):
    """A value is not a valid entry id."""

    code = "invalid_id"


class ConsumerRequired(Problem):
    """The request must name a consumer."""

    code = "consumer_required"


class ConsumerConflict(Problem):
    """The request names two different consumers."""

    code = "consumer_conflict"


class Unauthenticated(Problem):
    """The credential is missing or not valid."""

    code = "unauthenticated"


class Forbidden(Problem):
    """The credential does not allow this request."""

    code = "forbidden"


class OriginRefused(Problem):
    """Pages of this origin must not use the gateway."""

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
    """Nothing exists at this path."""

    code = "not_found"


class MethodNotAllowed(Problem):
    """The path does not support this method."""

    code = "method_not_allowed"


class NotAcceptable(Problem):
    """The gateway cannot answer with the requested media type."""

    code = "not_acceptable"


class GroupExists(Problem):
    """The group exists with other settings."""

    code = "group_exists"


class StreamExists(Problem):
    """The stream exists with other settings."""

    code = "stream_exists"


class StreamClosed(Problem):
    """The stream is closed and accepts no more entries."""

    code = "stream_closed"


class ContentTypeMismatch(Problem):
    """The durable stream has another content type."""

    code = "content_type_mismatch"


class OutOfSequence(Problem):
    """The append to the durable stream is not the next one of its writer."""

    code = "out_of_sequence"


class ProducerFenced(Problem):
    """Another producer with this name has started a later epoch."""

    code = "producer_fenced"


class Gone(Problem):
    """The position in the stream, or a stream that forks refer to, no longer exists."""

    code = "gone"


class WrongType(Problem):
    """A Redis key has a value that the gateway did not write."""

    code = "wrong_type"


class IdNotGreater(Problem):
    """The id is not greater than the last id of the stream."""

    code = "id_not_greater"


class StagedMissing(Problem):
    """A chunk of the batch has not arrived."""

    code = "staged_missing"


class LimitReached(Problem):
    """The maximum number of such objects already exists."""

    code = "limit_reached"


class LastIdMismatch(Problem):
    """Other entries were appended first. `last_id` is the last id now."""

    code = "last_id_mismatch"


class RowChanged(Problem):
    """The row does not match the condition. `row` is the current row, or None."""

    code = "row_changed"

    def __init__(self, problem: Mapping[str, Any]) -> None:
        super().__init__(problem)
        self.row: Mapping[str, Any] | None = problem.get("row")


class NotYours(Problem):
    """Entries of a commit are not pending with its consumer. `held` lists who has them."""

    code = "not_yours"

    def __init__(self, problem: Mapping[str, Any]) -> None:
        super().__init__(problem)
        self.held: Sequence[Mapping[str, Any]] = problem.get("held", ())


class LastAdminKey(Problem):
    """The key is the last active key with `admin`, so it cannot be revoked."""

    code = "last_admin_key"


class TooLarge(Problem):
    """The request or the answer is too large."""

    code = "too_large"


class UnsupportedMediaType(Problem):
    """The gateway does not accept bodies of this media type."""

    code = "unsupported_media_type"


class HeaderTooLarge(Problem):
    """The headers are too large."""

    code = "header_too_large"


class InvalidRequest(Problem):
    """Fields of the request are not valid. `errors` lists them."""

    code = "invalid_request"


class IdempotencyMismatch(Problem):
    """The idempotency key was used for a different request."""

    code = "idempotency_mismatch"


class TooManyWaiters(Problem):
    """Too many reads are waiting."""

    code = "too_many_waiters"


class TooManyConnections(Problem):
    """The principal has the maximum number of connections."""

    code = "too_many_connections"


class RateLimited(Problem):
    """The principal sends requests faster than allowed."""

    code = "rate_limited"


class Overloaded(Problem):
    """The gateway is overloaded."""

    code = "overloaded"


class Unavailable(Problem):
    """The gateway cannot store changes now."""

    code = "unavailable"


class NotLeader(Problem):
    """The gateway is a standby. `leader` is the address of the leader, if known."""

    code = "not_leader"


class Draining(Problem):
    """The gateway is about to stop."""

    code = "draining"


class CutOff(Problem):
    """An operator ended the connection."""

    code = "cut_off"


class MemoryFull(Problem):
    """The memory for streams is full."""

    code = "memory_full"


class ExtraMissing(Problem):
    """An optional package is not installed in the gateway."""

    code = "extra_missing"


class NotSupported(Problem):
    """The backend of the gateway does not support this."""

    code = "not_supported"


class Internal(Problem):
    """The gateway has a defect. `detail` contains the incident number."""

    code = "internal"


PROBLEMS: dict[str, type[Problem]] = {each.code: each for each in Problem.__subclasses__()}


def problem_in(body: bytes | bytearray) -> Problem | None:
    """Return the exception for the body of an answer. None: the body is not a problem."""
    try:
        problem = json.loads(body)
    except ValueError:
        return None
    return problem_of(problem) if isinstance(problem, dict) else None


def problem_of(problem: Mapping[str, Any]) -> Problem:
    """Return the exception for a problem. For an unknown code, it is a plain `Problem`."""
    return PROBLEMS.get(problem.get("code", ""), Problem)(problem)
