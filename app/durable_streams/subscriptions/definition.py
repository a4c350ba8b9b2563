"""The definition of a subscription, and the paths that it is about."""

from enum import StrEnum
from typing import Any

import msgspec

from headgate.app.durable_streams.protocol import name_of
from headgate.app.wire.problems import GatewayError

LEASE_MS = 30_000
_LEASE_MS_MIN, _LEASE_MS_MAX = 1_000, 600_000
_TEXT_MAX = 1_000
_STREAMS_MAX, _STREAMS_BYTES_MAX = 1_000, 128 * 1024
_PATTERN_MAX = 256
_SEGMENTS_MAX, _STARS_MAX = 20, 2
"""Segments of a pattern, and `**` among them: so many names are compared with it."""

_BODY_BYTES_MAX = 2**20
_ITEMS_MAX = 5_000
"""Items of all arrays and objects of a body: reading so many takes 3 ms. Some bodies come from
anybody."""


class WakeKind(StrEnum):
    WEBHOOK = "webhook"
    PULL_WAKE = "pull-wake"


class SubscriptionFault(Exception):
    def __init__(self, status: int, code: str, text: str, **facts: object) -> None:
        super().__init__(text)
        self.status, self.code, self.facts = status, code, facts


def invalid(text: str) -> SubscriptionFault:
    return SubscriptionFault(400, "INVALID_REQUEST", text)


class SubscriptionDefinition(msgspec.Struct, frozen=True):
    kind: WakeKind
    pattern: str | None
    streams: tuple[str, ...]  # names, in order
    webhook_url: str | None
    wake_stream: str | None  # its name
    lease_ms: int
    description: str | None


class _Webhook(msgspec.Struct):
    url: str


class _Body(msgspec.Struct):
    type: WakeKind
    pattern: str | None = None
    streams: list[str] | None = None
    webhook: _Webhook | None = None
    wake_stream: str | None = None
    lease_ttl_ms: int = LEASE_MS
    description: str | None = None


def parse(content: bytes) -> SubscriptionDefinition:
    body = decoded(content, _Body)
    if body.pattern is None and not body.streams:
        raise invalid("a subscription has a `pattern` or `streams`")
    if body.pattern is not None and not 0 < len(body.pattern) <= _PATTERN_MAX:
        raise invalid(f"a pattern has 1 to {_PATTERN_MAX} characters")
    if any("*" in part and part not in ("*", "**") for part in (body.pattern or "").split("/")):
        raise invalid("in a pattern `*` and `**` are whole segments")
    segments = (body.pattern or "").split("/")
    if len(segments) > _SEGMENTS_MAX or segments.count("**") > _STARS_MAX:
        raise invalid(f"a pattern has {_SEGMENTS_MAX} segments and {_STARS_MAX} `**` at most")
    if (body.type is WakeKind.WEBHOOK) != (body.webhook is not None):
        raise invalid("`webhook` belongs to the type webhook, and only there")
    if (body.type is WakeKind.PULL_WAKE) != (body.wake_stream is not None):
        raise invalid("`wake_stream` belongs to the type pull-wake, and only there")
    if not _LEASE_MS_MIN <= body.lease_ttl_ms <= _LEASE_MS_MAX:
        raise invalid(f"`lease_ttl_ms` is from {_LEASE_MS_MIN} to {_LEASE_MS_MAX}")
    if body.description is not None and len(body.description) > _TEXT_MAX:
        raise invalid(f"a description has at most {_TEXT_MAX} characters")
    names = sorted(set(names_of(body.streams or [])))
    if sum(len(name.encode()) for name in names) > _STREAMS_BYTES_MAX:
        raise invalid(f"the names of `streams` have {_STREAMS_BYTES_MAX} bytes at most")
    return SubscriptionDefinition(
        body.type,
        body.pattern,
        tuple(names),
        body.webhook.url if body.webhook is not None else None,
        names_of([body.wake_stream])[0] if body.wake_stream is not None else None,
        body.lease_ttl_ms,
        body.description,
    )


def names_of(paths: list[str]) -> list[str]:
    """Return the names of streams from the paths in a body; raises SubscriptionFault."""
    if len(paths) > _STREAMS_MAX:
        raise invalid(f"at most {_STREAMS_MAX} streams")
    try:
        return [name_of(path).decode() for path in paths]
    except GatewayError as error:
        raise invalid(f"{error}") from None


def decoded(content: bytes, kind: type[Any]) -> Any:
    if len(content) > _BODY_BYTES_MAX or content.count(b",") > _ITEMS_MAX:
        raise SubscriptionFault(413, "INVALID_REQUEST", "the body is too large")
    try:
        return msgspec.json.decode(content or b"{}", type=kind)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise invalid(f"the body: {error}") from None


def literal_prefix(pattern: str) -> str:
    return pattern.partition("*")[0]


def matches(pattern: str, path: str) -> bool:
    """Tell whether a path matches a pattern: `*` is a segment, `**` any number of them.

    Of earlier stars only the last `**` can still take more, so this takes at most the product of
    the lengths.
    """
    wanted, there = pattern.split("/"), path.split("/")
    at, star, taken, begin = 0, None, 0, 0
    while begin < len(there):
        if at < len(wanted) and wanted[at] == "**":
            star, taken = at, begin
            at += 1
        elif at < len(wanted) and wanted[at] in ("*", there[begin]):
            at, begin = at + 1, begin + 1
        elif star is not None:
            taken += 1
            at, begin = star + 1, taken
        else:
            return False
    return all(segment == "**" for segment in wanted[at:])
