"""Requests: a patch can name whatever it is a patch of, and changes nothing else."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from headgate.engine.requests import PolicyPatch, StreamPatch, patched
from headgate.engine.state.policy import GroupPolicy
from headgate.engine.state.stream import StreamConfig

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

    found = patched(POLICY, patch)

    for name in GroupPolicy.__struct_fields__:
        assert getattr(found, name) == getattr(OTHER if name in named else POLICY, name)


def test_a_patch_takes_away_what_can_be_left_out() -> None:
    config = StreamConfig(max_length=5, idempotency_max=7)

    assert patched(config, StreamPatch(max_length=None)) == StreamConfig(idempotency_max=7)
