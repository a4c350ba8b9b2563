"""Policies: between the rules of a group and the words in which the servers keep them.

A rule that is not set is an empty word. In a patch, `=` is a rule that stays as it is. The name of
a stream has a `.` before it, because it may be any word.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET, UnsetType

from headgate.engine.config import NO_POLICY, GroupPolicy, PolicyPatch
from headgate.engine.requests.dumps import CopyStream
from headgate.engine.requests.keyspace import RenameStream

_UNCHANGED = b"="


def policy_words(policy: GroupPolicy | PolicyPatch) -> list[bytes]:
    """Return the words of a policy or a patch, in the order of `RULES` in groups.lua."""
    return [
        _number(policy.claim_idle_ms),
        _number(policy.max_deliveries),
        _name(policy.dead_letter_stream),
        _numbers(policy.backoff_ms),
        _number(policy.max_pending),
        _flag(policy.keeps),
        _number(policy.consumer_ttl_ms),
    ]


def read_policy(words: Sequence[bytes]) -> GroupPolicy:
    """Return the policy that words stand for."""
    if not any(words):
        return NO_POLICY
    claim_idle_ms, max_deliveries, dead_letters, backoff_ms, max_pending, keeps, ttl_ms = words
    return GroupPolicy(
        claim_idle_ms=_read_number(claim_idle_ms),
        max_deliveries=_read_number(max_deliveries),
        dead_letter_stream=dead_letters[1:] if dead_letters else None,
        backoff_ms=tuple(map(int, backoff_ms.split(b","))) if backoff_ms else (),
        max_pending=_read_number(max_pending),
        keeps=bool(keeps),
        consumer_ttl_ms=_read_number(ttl_ms),
    )


def reach_words(request: RenameStream | CopyStream) -> list[bytes]:
    """Return the words that say which streams policies may name under the new name."""
    reach = request.reach
    if reach is None:
        return []
    names = [b"=" + name for name in sorted(reach.names)]
    return [request.to, *names, *(b"^" + prefix for prefix in reach.prefixes)]


def _number(value: int | UnsetType | None) -> bytes:
    if value is UNSET:
        return _UNCHANGED
    return b"" if value is None else b"%d" % value


def _numbers(values: tuple[int, ...] | UnsetType) -> bytes:
    return _UNCHANGED if isinstance(values, UnsetType) else b",".join(map(_number, values))


def _name(value: bytes | UnsetType | None) -> bytes:
    if value is UNSET:
        return _UNCHANGED
    return b"" if value is None else b"." + value


def _flag(value: bool | UnsetType) -> bytes:
    if value is UNSET:
        return _UNCHANGED
    return b"1" if value else b""


def _read_number(word: bytes) -> int | None:
    return int(word) if word else None
