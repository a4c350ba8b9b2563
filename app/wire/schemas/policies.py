"""The policy of a group."""

from typing import Any, Literal, Self

from pydantic import Field
from typing_extensions import TypeAliasType

from headgate.app.wire.names import check_name, text_of
from headgate.app.wire.schemas.values import Milliseconds, Positive, Request
from headgate.engine.config import NO_POLICY, GroupPolicy, PolicyPatch, patched

OnDisconnect = TypeAliasType("OnDisconnect", Literal["release", "keep"])


class Policy(Request):
    """The policy of a group, which it follows by itself; every part may be left out or null."""

    claim_idle_ms: Milliseconds | None = Field(
        None, description="Reads that do not say it take over entries idle for so long."
    )
    max_deliveries: Positive | None = Field(
        None, description="An entry delivered so often goes to `dead_letter_stream` when it fails."
    )
    dead_letter_stream: str | None = Field(
        None,
        description="Where such entries go, with `_stream`, `_id`, `_group`, `_deliveries` and "
        "`_reason` behind their own fields; then `_error`, if a nack carried one.",
    )
    backoff_ms: list[Milliseconds] | None = Field(
        None,
        max_length=32,
        description="How long a failed entry rests before its 2nd, 3rd … delivery.",
        examples=[[1000, 10000, 60000]],
    )
    max_pending: Positive | None = Field(
        None, description="A consumer with so many unacknowledged entries gets no more."
    )
    on_disconnect: OnDisconnect | None = Field(
        None, description="What becomes of a connection's unacknowledged entries in the end."
    )
    consumer_ttl_ms: Positive | None = Field(
        None, description="A consumer idle for so long, with nothing pending, is removed."
    )

    def to_engine(self) -> GroupPolicy:
        """Return the engine's form."""
        return patched(NO_POLICY, self.to_patch())

    def to_patch(self) -> PolicyPatch:
        """Return the patch (RFC 7396: null removes)."""
        changes: dict[str, Any] = self.model_dump(exclude_unset=True)
        dead_letter_stream = changes.get("dead_letter_stream")
        if dead_letter_stream is not None:
            place = "/body/policy/dead_letter_stream"
            changes["dead_letter_stream"] = check_name(dead_letter_stream, pointer=place)
        if "backoff_ms" in changes:
            changes["backoff_ms"] = tuple(changes["backoff_ms"] or ())
        if "on_disconnect" in changes:
            changes["keeps"] = changes.pop("on_disconnect") == "keep"
        return PolicyPatch(**changes)

    @classmethod
    def of(cls, policy: GroupPolicy) -> Self:
        """Return the wire form, without what is left out."""
        dead_letters = policy.dead_letter_stream
        fields = {
            "claim_idle_ms": policy.claim_idle_ms,
            "max_deliveries": policy.max_deliveries,
            "dead_letter_stream": None if dead_letters is None else text_of(dead_letters),
            "backoff_ms": list(policy.backoff_ms) or None,
            "max_pending": policy.max_pending,
            "on_disconnect": "keep" if policy.keeps else None,
            "consumer_ttl_ms": policy.consumer_ttl_ms,
        }
        return cls(**{name: value for name, value in fields.items() if value is not None})
