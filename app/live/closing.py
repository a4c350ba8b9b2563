"""Closing: tells a client why its WebSocket ends, and whether to connect again."""

from collections.abc import Callable

from pydantic import BaseModel, ValidationError

from headgate.app.live.frames.reading import INSTANCE, BadFramesError
from headgate.app.live.frames.server import Draining, ProblemFrame
from headgate.app.wire.problems import (
    GatewayError,
    Problem,
    make_problem,
    problem_of,
    validation_problem,
)
from headgate.engine import errors
from headgate.engine.errors import StreamError

NORMAL = 1000
BROKEN = 1006  # the connection ended without a close frame (RFC 6455, 7.4.1)
FAILED = 1011
RESTARTING = 1012
TRY_LATER = 1013
BAD_FRAME = 4400
UNAUTHENTICATED = 4401
FORBIDDEN = 4403
GONE = 4404
CUT_OFF = 4503
SLOW = 4508
RATE_LIMITED = 4529


_CODES = {401: UNAUTHENTICATED, 403: FORBIDDEN, 404: GONE}
"""By the status of the problem."""


class CloseError(Exception):
    """The connection is over, for a reason the client is told."""

    def __init__(self, code: int, *last_words: BaseModel) -> None:
        """Keep the close code, and the frames to send before it."""
        super().__init__(code)
        self.code = code
        self.last_words = last_words


def ending_of(error: Exception, reconnect_after_ms: Callable[[], int]) -> CloseError | None:
    """Return the close code and the frames for an error that ends a connection.

    Args:
        error: what was raised.
        reconnect_after_ms: returns when to connect again, if the gateway stops.

    Returns:
        None if nobody expected such an error.
    """
    match error:
        case CloseError():
            return error
        case errors.Draining():
            return CloseError(RESTARTING, Draining(reconnect_after_ms=reconnect_after_ms()))
        case BadFramesError():
            problem = make_problem("malformed", str(error), INSTANCE)
            return CloseError(BAD_FRAME, ProblemFrame(problem=problem))
        case ValidationError():
            details = error.errors(include_url=False, include_input=False)
            problem = validation_problem(details, INSTANCE, prefix="/query")
            return CloseError(BAD_FRAME, ProblemFrame(problem=problem))
        case GatewayError() | StreamError():
            problem = problem_of(error, INSTANCE)
            return CloseError(code_of(problem), ProblemFrame(problem=problem))
    return None


def code_of(problem: Problem) -> int:
    """Return the close code of a connection that ends with this problem."""
    code = _CODES.get(problem.status)
    if code is not None:
        return code
    if problem.code == "rate_limited":
        return RATE_LIMITED
    if problem.code == "cut_off":
        return CUT_OFF
    return TRY_LATER if problem.retryable else BAD_FRAME
