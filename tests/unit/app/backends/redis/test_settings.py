"""Settings: as the servers keep them, and as they are read again."""

from typing import TypeVar

import msgspec
import pytest

from headgate.app.backends.redis.settings import lua_tables, read_settings, setting_texts
from headgate.engine.config import GroupPolicy, Patch, StreamConfig, settings_of

S = TypeVar("S", bound=msgspec.Struct)

CONFIG = StreamConfig(max_length=5, idempotency_window_ms=60_000)
POLICY = GroupPolicy(
    claim_idle_ms=30_000,
    max_deliveries=3,
    dead_letter_stream=b".dead",
    backoff_ms=(100, 2_000, 30_000),
)


def kept(values: S) -> list[bytes | None]:
    """Return the texts of all settings, in their order."""
    names = settings_of(type(values))
    texts = setting_texts(Patch(values, frozenset(names)))
    return [texts[name] for name in names]


@pytest.mark.parametrize("values", [StreamConfig(), CONFIG, GroupPolicy(), POLICY])
def test_settings_that_were_kept_are_read_again(values: msgspec.Struct) -> None:
    assert read_settings(type(values), kept(values)) == values


def test_a_patch_has_the_texts_of_its_own_settings_alone() -> None:
    patch = Patch(POLICY, frozenset({"dead_letter_stream", "backoff_ms", "max_pending"}))
    assert setting_texts(patch) == {
        "backoff_ms": b"100,2000,30000",
        "dead_letter_stream": b"..dead",
        "max_pending": b"",
    }


def test_the_functions_know_all_settings_and_their_forms() -> None:
    _, config, policy, forms = lua_tables().splitlines()
    assert config == f"local CONFIG = {{ {', '.join(map(repr, settings_of(StreamConfig)))} }}"
    assert policy == f"local POLICY = {{ {', '.join(map(repr, settings_of(GroupPolicy)))} }}"
    assert "max_length = 'number'" in forms
    assert "backoff_ms = 'list of numbers'" in forms
    assert "dead_letter_stream = 'stream'" in forms
