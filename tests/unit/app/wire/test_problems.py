"""Problems: the code of an engine's error, and its pointer."""

from typing import get_args

import pytest

from headgate.app.wire import problems
from headgate.engine import errors
from headgate.engine.errors import (
    GroupExists,
    IdempotencyMismatch,
    IdNotGreater,
    Invalid,
    LimitReached,
    StreamError,
    TooManyWaiters,
    Unavailable,
    WrongSideKey,
    WrongType,
)


@pytest.mark.parametrize(
    ("error", "code", "status"),
    [
        (TooManyWaiters(5), "too_many_waiters", 429),
        (LimitReached("streams", 5), "limit_reached", 409),
        (GroupExists(b"s", b"g"), "group_exists", 409),
        (IdempotencyMismatch(b"k"), "idempotency_mismatch", 422),
        (Invalid("no"), "invalid_request", 422),
        (Unavailable("the disk is gone"), "unavailable", 503),
        (WrongType(b"orders"), "wrong_type", 409),
        (WrongSideKey(b"hg:gateways", "it is a list"), "wrong_type", 409),
    ],
)
def test_an_error_has_the_code_of_its_own_kind(error: StreamError, code: str, status: int) -> None:
    problem = problems.problem_of(error, "/v1/streams/orders")

    assert (problem.code, problem.status) == (code, status)


LEAVES = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, StreamError) and not kind.__subclasses__()
]


@pytest.mark.parametrize("kind", LEAVES, ids=lambda kind: kind.__name__)
def test_every_error_that_a_request_meets_has_a_code(kind: type[StreamError]) -> None:
    error = kind.__new__(kind)
    vars(error)["stream_exists"] = True
    assert (problems.code_of(error) == "internal") == issubclass(kind, errors.Corrupt)


def test_a_problem_points_at_what_the_error_names() -> None:
    draft = IdNotGreater("no", last_id="1-0", index=3)
    problems.place_drafts(draft, lambda index: ("entries", index))
    for error, pointer in (
        (Invalid("no", location=("policy",)), "/body/policy"),
        (Invalid("no", location=("fields", "a/b~c")), "/body/fields/a~1b~0c"),
        (draft, "/body/entries/3/id"),
    ):
        [fault] = problems.problem_of(error, "/v1/streams/orders").errors or []
        assert fault.pointer == pointer
    assert problems.problem_of(Invalid("no"), "/v1/streams/orders").errors is None


def test_every_problem_has_a_title_of_its_own_status() -> None:
    titles = {problems.make_problem(code, "", "/").title for code in get_args(problems.Code)}
    statuses = {problems.status_of(code) for code in get_args(problems.Code)}
    assert len(titles) == len(statuses)
