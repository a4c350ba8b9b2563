"""Problems (RFC 9457): one table from errors to answers.

Every error that the gateway answers is a `Problem`, including validation errors and unknown routes.
This file defines the problem; `handlers` makes the HTTP answer.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args

from pydantic import BaseModel, Field
from pydantic_core import ErrorDetails

from headgate.engine import errors

_General = Literal[
    "malformed",
    "invalid_id",
    "consumer_required",
    "consumer_conflict",
    "unauthenticated",
    "forbidden",
    "origin_refused",
    "stream_not_found",
    "group_not_found",
    "entry_not_found",
    "entry_referenced",
    "not_found",
    "method_not_allowed",
    "not_acceptable",
    "group_exists",
    "stream_exists",
    "stream_closed",
    "content_type_mismatch",
    "out_of_sequence",
    "producer_fenced",
    "gone",
    "wrong_type",
    "id_not_greater",
    "staged_missing",
    "limit_reached",
    "last_id_mismatch",
    "too_large",
    "unsupported_media_type",
    "header_too_large",
    "invalid_request",
    "idempotency_mismatch",
    "too_many_waiters",
    "too_many_connections",
    "rate_limited",
    "overloaded",
    "unavailable",
    "not_leader",
    "draining",
    "cut_off",
    "memory_full",
    "extra_missing",
    "not_supported",
    "internal",
]
"""Codes that clients of the last release know: any operation may answer them."""

_OfRows = Literal["row_changed"]
_OfCommits = Literal["not_yours"]
_OfKeys = Literal["last_admin_key"]

Code = Literal[_General, _OfRows, _OfCommits, _OfKeys]

SETTING: tuple[Code, ...] = (
    "malformed",
    "limit_reached",
    "unsupported_media_type",
    "invalid_request",
    "overloaded",
    "memory_full",
)
"""Problems of an operation that creates or replaces something with settings of its own."""


class ProblemError(BaseModel):
    """One fault of a request."""

    pointer: str = Field(
        description="Where the fault is: a JSON pointer below `/body`, `/query`, `/path` or "
        "`/header`.",
        examples=["/body/fields/sku"],
    )
    detail: str = Field(description="What is wrong.")


class Problem(BaseModel):
    """An error. The request changed nothing."""

    type: str = Field(
        description="Path of a page at this gateway that explains the problem and its remedy."
    )
    title: str = Field(description="Name of the HTTP status.")
    status: int = Field(description="HTTP status code.")
    detail: str = Field(description="Explanation for people.")
    instance: str = Field(description="Path of the request.")
    code: Code = Field(
        description="Code for programs.", json_schema_extra={"enum": list(get_args(_General))}
    )
    retryable: bool = Field(description="Whether the same request may succeed later.")
    retry_after_ms: int | None = Field(
        None, description="How long to wait before the next attempt, if known."
    )
    errors: list[ProblemError] | None = Field(
        None, description="All faults of the request, each with its place."
    )
    last_id: str | None = Field(
        None, description="Last id of the stream, if the problem is about it."
    )
    entry_id: str | None = Field(
        None,
        description="Id of the entry that is too large for its reader, if the problem is about it.",
    )
    step: int | None = Field(None, description="Number of the failed step of a commit, from 0.")
    leader: str | None = Field(
        None, description="With `not_leader`: address of the leader, if known."
    )
    request_id: str | None = Field(
        None, description="`X-Request-Id` of the answer or of the WebSocket, as in the log."
    )


class RowProblem(Problem):
    """Error of a change of a row: the row is not in the state that the request expects."""

    code: _OfRows = Field(description="Code for programs.")
    row: dict[str, Any] | None = Field(None, description="The current row, if it exists.")


class HeldEntry(BaseModel):
    """An entry that is not pending with the consumer of a commit."""

    id: str = Field(description="Id of the entry.")
    consumer: str | None = Field(
        None, description="Consumer that holds the entry; absent if none does."
    )
    deliveries: int | None = Field(
        None,
        description="Delivery count of the entry; absent if it is not pending or already settled.",
    )


class FenceProblem(Problem):
    """Error of a commit: entries are not pending with its consumer. The commit changed nothing."""

    code: _OfCommits = Field(description="Code for programs.")
    held: list[HeldEntry] = Field(description="The entries, and who holds them.")


class KeyProblem(Problem):
    """Error of a change of an API key: nobody could manage keys without it."""

    code: _OfKeys = Field(description="Code for programs.")


class GatewayError(Exception):
    """A request that the web shell refuses."""

    def __init__(self, code: Code, detail: str, *, pointer: str | None = None) -> None:
        super().__init__(detail)
        self.code = code
        self.pointer = pointer
        self.retry_after_ms: int | None = None  # when to try again, if that is known


class FrameTooLarge(GatewayError):
    """An entry is larger than its reader accepts: nothing comes after it."""

    def __init__(self, entry_id: str, size_bytes: int, bytes_max: int) -> None:
        text = (
            f"The frame of entry {entry_id} has {size_bytes} bytes, but frame_bytes_max is "
            f"{bytes_max}: read the entry by its id, then continue after it."
        )
        super().__init__("too_large", text)
        self.entry_id = entry_id


class RowIsAnother(GatewayError):
    """The row is not as the request expects it."""

    def __init__(self, detail: str, row: Mapping[str, Any] | None) -> None:
        super().__init__("row_changed", detail)
        self.row = row  # as it is now, in the form of answers


def cut_off() -> GatewayError:
    return GatewayError("cut_off", "An operator closed this connection.")


_STATUS: dict[Code, int] = {
    "malformed": 400,
    "invalid_id": 400,
    "consumer_required": 400,
    "consumer_conflict": 400,
    "unauthenticated": 401,
    "forbidden": 403,
    "producer_fenced": 403,
    "origin_refused": 403,
    "stream_not_found": 404,
    "group_not_found": 404,
    "entry_not_found": 404,
    "not_found": 404,
    "method_not_allowed": 405,
    "not_acceptable": 406,
    "group_exists": 409,
    "stream_exists": 409,
    "stream_closed": 409,
    "content_type_mismatch": 409,
    "out_of_sequence": 409,
    "gone": 410,
    "wrong_type": 409,
    "entry_referenced": 409,
    "id_not_greater": 409,
    "staged_missing": 409,
    "not_yours": 409,
    "last_admin_key": 409,
    "limit_reached": 409,
    "last_id_mismatch": 412,
    "row_changed": 412,
    "too_large": 413,
    "unsupported_media_type": 415,
    "invalid_request": 422,
    "idempotency_mismatch": 422,
    "header_too_large": 431,
    "too_many_waiters": 429,
    "too_many_connections": 429,
    "rate_limited": 429,
    "internal": 500,
    "extra_missing": 501,
    "not_supported": 501,
    "overloaded": 503,
    "unavailable": 503,
    "not_leader": 503,
    "draining": 503,
    "cut_off": 503,
    "memory_full": 507,
}

_TITLES = {
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    406: "Not Acceptable",
    409: "Conflict",
    410: "Gone",
    412: "Precondition Failed",
    413: "Content Too Large",
    415: "Unsupported Media Type",
    422: "Unprocessable Content",
    429: "Too Many Requests",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    501: "Not Implemented",
    503: "Service Unavailable",
    507: "Insufficient Storage",
}
"""The names of statuses in RFC 9110, 6585 and 4918. Those in Python change with its version."""

_CODE_OF: dict[type[Exception], Code] = {
    errors.StreamNotFound: "stream_not_found",
    errors.GroupNotFound: "group_not_found",
    errors.EntryNotFound: "entry_not_found",
    errors.NotFound: "not_found",
    errors.StreamExists: "stream_exists",
    errors.GroupExists: "group_exists",
    errors.ClosedToAppends: "stream_closed",
    errors.ScheduleExists: "forbidden",
    errors.ScheduleChanged: "overloaded",
    errors.WrongType: "wrong_type",
    errors.IdNotGreater: "id_not_greater",
    errors.IdsExhausted: "id_not_greater",
    errors.OutOfReach: "forbidden",
    errors.RangeClosed: "overloaded",
    errors.LimitReached: "limit_reached",
    errors.LastIdMismatch: "last_id_mismatch",
    errors.RowChanged: "row_changed",
    errors.NotYours: "not_yours",
    errors.NotATable: "wrong_type",
    errors.WalkOver: "gone",
    errors.StreamsChanged: "last_id_mismatch",
    errors.IdempotencyMismatch: "idempotency_mismatch",
    errors.InvalidId: "invalid_id",
    errors.Invalid: "invalid_request",
    errors.TooManyWaiters: "too_many_waiters",
    errors.LimitExceeded: "too_large",
    errors.NotSupported: "not_supported",
    errors.Draining: "draining",
    errors.NotLeader: "not_leader",
    errors.Unavailable: "unavailable",
    errors.MemoryFull: "memory_full",
    errors.StreamError: "internal",  # nobody is told of it but the log
}

_RETRYABLE: frozenset[Code] = frozenset(
    {
        "too_many_waiters",
        "too_many_connections",
        "rate_limited",
        "overloaded",
        "unavailable",
        "not_leader",
        "draining",
        "cut_off",
        "memory_full",
    }
)
_RETRY_AFTER_MS = 1000

_STEP = re.compile("/body/steps/([0-9]+)")

_MODELS: dict[Code, type[Problem]] = {
    "row_changed": RowProblem,
    "not_yours": FenceProblem,
    "last_admin_key": KeyProblem,
}
"""The problems that say more than others, or that clients of the last release do not know."""

_ERRORS_MAX = 100
"""Errors told of one request: more would help nobody, and each costs more than the mistake."""

NOWHERE = -1
"""As a place in a text: not known."""

# Where Pydantic speaks of Python, we speak of JSON.
_TEXTS = {
    "extra_forbidden": "unknown field",
    "model_type": "should be an object",
    "model_attributes_type": "should be an object",
    "dict_type": "should be an object",
    "list_type": "should be an array",
    "missing": "is required",
}


def problem_of(error: Exception, instance: str) -> Problem:
    code = code_of(error)
    if isinstance(error, GatewayError):
        pointer = error.pointer
    else:
        location = error.location if isinstance(error, errors.StreamError) else ()
        pointer = pointer_to("body", *location) if location else None
    detail = _detail(error)
    if pointer is None:
        problem = make_problem(code, detail, instance)
    elif isinstance(error, errors.SchemaMismatch):
        faults = _faults_of(error)
        problem = make_problem(code, f"{pointer}: {faults[0].detail}", instance, faults)
    else:
        errors_found = [ProblemError(pointer=pointer, detail=detail)]
        problem = make_problem(code, f"{pointer}: {detail}", instance, errors_found)
    return _with_facts(problem, error)


def _faults_of(error: errors.SchemaMismatch) -> list[ProblemError]:
    entry = error.location[:-1] if error.faults[0].field else error.location
    return [
        ProblemError(pointer=pointer_to("body", *entry, *([field] if field else [])), detail=text)
        for field, text in error.faults
    ]


def _with_facts(problem: Problem, error: Exception) -> Problem:
    """Return the problem of an error with what programs want to know of it."""
    if isinstance(error, errors.IdNotGreater | errors.LastIdMismatch):
        problem.last_id = str(error.last_id)
    if isinstance(error, FrameTooLarge):
        problem.entry_id = error.entry_id
    if isinstance(error, RowIsAnother):
        row = None if error.row is None else dict(error.row)
        return RowProblem(**problem.model_dump(exclude_unset=True), row=row)
    if isinstance(error, errors.NotYours):
        held = [_held(each) for each in error.held[:_ERRORS_MAX]]
        return FenceProblem(**problem.model_dump(exclude_unset=True), held=held)
    if isinstance(error, errors.NotLeader) and error.leader:
        problem.leader = error.leader
    if isinstance(error, GatewayError) and error.retry_after_ms is not None:
        problem.retry_after_ms = error.retry_after_ms
    return problem


def _held(held: errors.EntryHolder) -> HeldEntry:
    consumer = None if held.consumer is None else held.consumer.decode(errors="replace")
    return HeldEntry(id="{}-{}".format(*held.id), consumer=consumer, deliveries=held.deliveries)


def code_of(error: Exception) -> Code:
    if isinstance(error, GatewayError):
        return error.code
    if isinstance(error, errors.GroupNotFound) and not error.stream_exists:
        return "stream_not_found"
    return next(_CODE_OF[kind] for kind in type(error).__mro__ if kind in _CODE_OF)


def make_problem(
    code: Code, detail: str, instance: str, parts: list[ProblemError] | None = None
) -> Problem:
    status = _STATUS[code]
    problem = Problem(
        type=f"/problems/{code}",
        title=title_of(status),
        status=status,
        detail=detail,
        instance=instance,
        code=code,
        retryable=code in _RETRYABLE,
    )
    if code in _RETRYABLE:
        problem.retry_after_ms = _RETRY_AFTER_MS
    if parts is not None:
        problem.errors = parts
        step = _STEP.match(parts[0].pointer)
        if step is not None:
            problem.step = int(step[1])
    return problem


def status_of(code: Code) -> int:
    return _STATUS[code]


def title_of(status: int) -> str:
    """Return the title of a status; an unknown one gets that of its class (RFC 9110)."""
    return _TITLES.get(status) or _TITLES[status // 100 * 100]


def validation_problem(mistakes: list[ErrorDetails], instance: str, prefix: str = "") -> Problem:
    details = [
        ProblemError(pointer=_pointer(error, prefix), detail=_validation_detail(error))
        for error in mistakes[:_ERRORS_MAX]
    ]
    first = f"{details[0].pointer}: {details[0].detail}"
    more = f" (and {len(mistakes) - 1} more)" if len(mistakes) > 1 else ""
    is_json = not any(error["type"] == "json_invalid" for error in mistakes)
    return make_problem(
        "invalid_request" if is_json else "malformed", first + more, instance, details
    )


def responses(*codes: Code) -> dict[int | str, dict[str, object]]:
    described: dict[int | str, dict[str, object]] = {}
    for status in sorted({_STATUS[code] for code in codes}):
        named = " or ".join(f"`{code}`" for code in codes if _STATUS[code] == status)
        here = [code for code in codes if _STATUS[code] == status]
        models = dict.fromkeys(_MODELS.get(code, Problem).__name__ for code in here)
        schemas = [{"$ref": f"#/components/schemas/{model}"} for model in models]
        described[status] = {
            "description": f"{title_of(status)}: {named}",
            "content": {
                "application/problem+json": {
                    "schema": schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
                }
            },
        }
    return described


def _detail(error: Exception) -> str:
    text = str(error)
    if isinstance(error, errors.IdNotGreater) and error.stream is not None:
        return f"stream {_quoted(error.stream)}: {text}"
    if isinstance(error, errors.StreamNotFound | errors.GroupNotFound | errors.MemoryFull):
        return f"{text[0].upper()}{text[1:]}."
    return text


def pointer_to(*parts: str | int) -> str:
    """Return the JSON pointer to a part of a request (RFC 6901)."""
    texts = (str(part).replace("~", "~0").replace("/", "~1") for part in parts)
    return "".join(f"/{text}" for text in texts)


def place_drafts(error: errors.StreamError, place: Callable[[int], errors.Location]) -> None:
    """Make an error point at the client's body instead of at the drafts made from it.

    The error may point at `("drafts", 3, "id")`; `place` returns the place of a draft in the body.
    """
    match error.location:
        case ("drafts", int(index), *inner):
            error.location = (*place(index), *inner)


def _quoted(name: bytes) -> str:
    return repr(name.decode(errors="replace"))


def _pointer(error: ErrorDetails, prefix: str) -> str:
    location = error["loc"]
    if location[-1:] == (NOWHERE,):
        location = location[:-1]
    return prefix + pointer_to(*location)


def _validation_detail(error: ErrorDetails) -> str:
    line = error.get("ctx", {}).get("line")
    return _text(error) if line is None else f"line {line}: {_text(error)}"


def _text(error: ErrorDetails) -> str:
    if error["type"] == "json_invalid":
        return f"not JSON: {error.get('ctx', {}).get('error', error['msg'])}"
    text = error["msg"].removeprefix("Value error, ").removeprefix("Input ")
    return _TEXTS.get(error["type"], text.replace(" after validation", ""))
