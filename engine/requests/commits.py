"""Commits: appends, rows and settled deliveries that happen together, or not at all."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.engine.replies import CommittedSteps
from headgate.engine.requests import Request
from headgate.engine.requests.deliveries import Ack, Extend, Nack
from headgate.engine.requests.entries import Add
from headgate.engine.requests.idempotency import Idempotent
from headgate.engine.requests.schedules import DeleteSchedule, SetSchedule
from headgate.engine.requests.tables import DeleteRow, PutRow

Settling = Ack | Nack | Extend

CommitStep = Add | PutRow | DeleteRow | Settling | SetSchedule | DeleteSchedule


class CommitSteps(Request[CommittedSteps], frozen=True):
    """Carry out steps at one moment, all or none, as one record.

    Every condition is asked of the streams as they are before the commit. Steps that settle are
    fenced: each names its consumer, and if an entry is not pending with it, or has another delivery
    count than the step says, nothing happens. An entry is settled once.

    Appends have no ids, keys or trims of their own. All those to one stream are made together, in
    order. With `idempotent`, a repeat under the same key changes nothing and gets the same reply.

    An error has the location of its step, `("steps", 2, …)`. NotYours; what the steps raise.
    """

    steps: Sequence[CommitStep]
    idempotent: Idempotent | None = None
