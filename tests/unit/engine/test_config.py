"""Configuration and policies: what follows from them, and patches that change some of them."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from headgate.engine.config import GroupPolicy, PolicyPatch, StreamConfig, StreamPatch, patched
from headgate.engine.limits import COUNT_MAX

# Patches

POLICY = GroupPolicy(1, 2, b"dead", (3, 4), 5, keeps=True, consumer_ttl_ms=6)
OTHER = GroupPolicy(9, 8, b"other", (7,), 6, keeps=False, consumer_ttl_ms=5)


@pytest.mark.parametrize(
    ("whole", "patch"), [(StreamConfig, StreamPatch), (GroupPolicy, PolicyPatch)]
)
def test_a_patch_can_name_every_part(
    whole: type[msgspec.Struct], patch: type[msgspec.Struct]
) -> None:
    assert patch.__struct_fields__ == whole.__struct_fields__
    assert all(getattr(patch(), name) is UNSET for name in patch.__struct_fields__)


@given(st.sets(st.sampled_from(GroupPolicy.__struct_fields__)))
def test_a_patch_changes_what_it_names_and_nothing_else(named: set[str]) -> None:
    patch = PolicyPatch(**{name: getattr(OTHER, name) for name in named})

    changed = patched(POLICY, patch)

    for name in GroupPolicy.__struct_fields__:
        assert getattr(changed, name) == getattr(OTHER if name in named else POLICY, name)


def test_a_patch_takes_away_what_can_be_left_out() -> None:
    config = StreamConfig(max_length=5, idempotency_max=7)

    assert patched(config, StreamPatch(max_length=None)) == StreamConfig(idempotency_max=7)


# Policies


@pytest.mark.parametrize(
    ("backoff_ms", "count", "rest_ms"),
    [
        ((), 1, 0),
        ((10, 30), 0, 10),
        ((10, 30), 1, 10),
        ((10, 30), 2, 30),
        ((10, 30), 3, 30),
        ((10, 30), COUNT_MAX, 30),
        ((0, 30), 1, 0),
    ],
)
def test_how_long_an_entry_rests_follows_from_its_deliveries(
    backoff_ms: tuple[int, ...], count: int, rest_ms: int
) -> None:
    assert GroupPolicy(backoff_ms=backoff_ms).delay_ms(count) == rest_ms


@pytest.mark.parametrize(("count", "is_spent"), [(0, False), (2, False), (3, True), (4, True)])
def test_an_entry_is_spent_after_so_many_deliveries(count: int, is_spent: bool) -> None:
    policy = GroupPolicy(max_deliveries=3, dead_letter_stream=b"dead")
    assert policy.is_spent(count) is is_spent
    assert not GroupPolicy().is_spent(count)


@pytest.mark.parametrize(
    ("policy", "acts"),
    [
        (GroupPolicy(), False),
        (GroupPolicy(claim_idle_ms=1, backoff_ms=(1,), max_pending=1, keeps=True), False),
        (GroupPolicy(max_deliveries=1, dead_letter_stream=b"dead"), True),
        (GroupPolicy(consumer_ttl_ms=1), True),
    ],
)
def test_only_dead_letters_and_vanished_consumers_need_a_clock(
    policy: GroupPolicy, acts: bool
) -> None:
    assert policy.acts_by_time is acts
