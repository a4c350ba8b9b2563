"""Sends the frames of a socket one at a time while its client reads, and closes it."""

import asyncio
from collections.abc import Callable

from pydantic import BaseModel, ValidationError

from headgate.app.live.frames.client import INSTANCE, BadFramesError
from headgate.app.live.frames.server import Draining, ProblemFrame
from headgate.app.transport.intake import Socket
from headgate.app.wire.problems import (
    GatewayError,
    Problem,
    make_problem,
    problem_of,
    validation_problem,
)
from headgate.engine import errors
from headgate.engine.errors import StreamError


class Outbox:
    """The sending side of one socket.

    Nearly every frame is sent at once and must not cost a timer. So the whole outbox has one timer,
    which runs while frames are sent.
    """

    __slots__ = (
        "_loop",
        "_on_stuck",
        "_patience_s",
        "_sending",
        "_socket",
        "_stuck_at_s",
        "_timer",
    )

    def __init__(self, socket: Socket, *, patience_ms: int, on_stuck: Callable[[], None]) -> None:
        """`on_stuck` is called when the client has not taken a frame for `patience_ms`."""
        self._socket = socket
        self._loop = asyncio.get_running_loop()
        self._patience_s = patience_ms / 1000
        self._on_stuck = on_stuck
        self._sending = asyncio.Lock()
        self._stuck_at_s: float | None = None  # when the frame that is being sent has waited enough
        self._timer: asyncio.TimerHandle | None = None

    def send_at_once(self, text: str) -> bool:
        """Send a frame, unless others wait to be sent or it has to wait."""
        return not self._sending.locked() and self._socket.send_at_once(text)

    async def send(self, text: str) -> None:
        if self.send_at_once(text):
            return
        async with self._sending:
            self._stuck_at_s = self._loop.time() + self._patience_s
            if self._timer is None:
                self._timer = self._loop.call_at(self._stuck_at_s, self._look)
            try:
                await self._socket.send_text(text)
            finally:
                self._stuck_at_s = None

    def close(self) -> None:
        del self._on_stuck  # it knows the connection, which knows us
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        if self._stuck_at_s is None:
            return
        if self._loop.time() >= self._stuck_at_s:
            self._on_stuck()
        else:
            self._timer = self._loop.call_at(self._stuck_at_s, self._look)


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
    """The connection ends for a reason that the client is told."""

    def __init__(self, code: int, *last_words: BaseModel) -> None:
        super().__init__(code)
        self.code = code
        self.last_words = last_words


def ending_of(error: Exception, reconnect_after_ms: Callable[[], int]) -> CloseError | None:
    """Return the close code and last frames for an error; None for an unexpected one."""
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
    code = _CODES.get(problem.status)
    if code is not None:
        return code
    if problem.code == "rate_limited":
        return RATE_LIMITED
    if problem.code == "cut_off":
        return CUT_OFF
    return TRY_LATER if problem.retryable else BAD_FRAME
