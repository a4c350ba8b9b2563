"""Verdicts: whether a group needs attention, with the reasons in words. All faces show this one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from headgate.app.wire.names import text_of
from headgate.app.wire.pushes import PushPhase
from headgate.app.wire.schemas.verdicts import GroupVerdict, ReasonCode, Verdict, VerdictReason
from headgate.app.wire.times import age_text, time_text
from headgate.engine.attention import Attention, AttentionCode, Urgency, attention_of
from headgate.engine.replies import GroupInfo


class PushState(NamedTuple):
    """What is known of the push of a group."""

    phase: PushPhase
    failing_since_ms: int | None = None
    disabled_reason: str | None = None


_VERDICTS: Final[dict[Urgency, Verdict]] = {
    Urgency.OK: "ok",
    Urgency.WARNING: "warning",
    Urgency.CRITICAL: "critical",
}


def verdict_of(group: GroupInfo, push: PushState | None, now_ms: int) -> GroupVerdict:
    """Return the verdict on a group.

    Args:
        group: as it is described now.
        push: the state of its push, if it has one that the caller may see.
        now_ms: wall time.
    """
    attention = attention_of(group, now_ms)
    waiting = 0 if attention is None else attention.entry_count
    told = [] if push is None else list(_of_push(push, waiting))  # the cause comes first
    is_told = bool(told) and attention is not None and attention.code is AttentionCode.NO_CONSUMER
    if attention is not None and not is_told:  # a push is its group's consumer
        told.append(_told(attention, group))
    told.sort(key=lambda reason: _ORDER.index(reason["severity"]))
    return {"verdict": told[0]["severity"] if told else "ok", "reasons": told}


_ORDER: Final[list[Verdict]] = ["critical", "warning", "ok"]


def _told(reason: Attention, group: GroupInfo) -> VerdictReason:
    count, ms = reason.entry_count, reason.ms
    wait = f"{count:,} {'entry waits' if count == 1 else 'entries wait'}"
    if group.noisy_key is not None:
        key, key_count = group.noisy_key
        of_key = "without the field" if key is None else f"of {text_of(key)}"
        wait += f", {key_count:,} of them {of_key}"
    since = "" if ms is None else age_text(ms)
    match reason.code:
        case AttentionCode.NO_CONSUMER:
            text = f"No consumer: {wait}"
        case AttentionCode.STALLED:
            text = f"Nothing delivered for {since}: {wait}"
        case AttentionCode.PAUSED:
            text = f"Paused until {time_text(ms or 0)}: {wait}"
        case _:
            text = f"Behind by {since}: {wait}"
    return {
        "code": reason.code.value,
        "severity": _VERDICTS[reason.severity],
        "entries": count,
        "text": text,
    }


def _of_push(push: PushState, entries: int) -> Iterator[VerdictReason]:
    match push.phase:
        case PushPhase.FAILING:
            at_ms = push.failing_since_ms
            since = "" if at_ms is None else f" since {time_text(at_ms)}"
            yield _reason("push_failing", "warning", entries, f"Push failing{since}")
        case PushPhase.PAUSED if entries:
            yield _reason("push_paused", "warning", entries, "Push paused")
        case PushPhase.DISABLED:
            why = f": {push.disabled_reason}" if push.disabled_reason else ""
            yield _reason("push_disabled", "critical", entries, f"Push disabled{why}")
        case PushPhase.UNREADABLE:
            text = "Push stopped: the key that encrypts its secrets is missing"
            yield _reason("push_unreadable", "critical", entries, text)


def _reason(code: ReasonCode, severity: Verdict, entries: int, text: str) -> VerdictReason:
    return {"code": code, "severity": severity, "entries": entries, "text": text}
