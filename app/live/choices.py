"""Choices: what a subscriber chooses of its subscription, the same for events and sockets."""

from typing import Literal, NamedTuple, Self

from pydantic import BaseModel

from headgate.engine.config import OnDisconnect


class SubscriptionChoices(NamedTuple):
    """The choices of a subscriber. All but the last two are about groups."""

    claim_idle_ms: int | None = None  # also take entries pending and idle for so long
    on_disconnect: OnDisconnect | None = None  # None: as the policy of the group says
    ack: Literal["explicit", "none"] = "explicit"  # none: entries are settled as they are sent
    auto_credit: bool = False  # what is settled gives its credit back
    max_pending: int | None = None  # unacknowledged entries
    filters: str | None = None  # of a stream, as JSON: only entries come for which they hold
    frame_bytes_max: int | None = None  # that the client takes; None: it does not say it

    @classmethod
    def of(cls, form: BaseModel) -> Self:
        """Return the choices in a frame or a query: its fields of the same names."""
        names = set(cls._fields) & set(type(form).model_fields)
        return cls(**{name: getattr(form, name) for name in names})
