"""Limits: each is defined in one place, from which settings, answers and the engine have it."""

from headgate.app.redis_syntax.words import Bounds
from headgate.app.settings import Settings
from headgate.engine.journal.rewrites import REDIS_GROWTH
from headgate.engine.limits import WAITERS_MAX
from headgate.engine.state.bounds import KeyspaceBounds


def test_the_engine_has_the_same_defaults() -> None:
    settings = Settings()

    assert settings.waiters_max == WAITERS_MAX
    assert KeyspaceBounds() == tuple(getattr(settings, name) for name in KeyspaceBounds._fields)
    assert (settings.rewrite_percentage, settings.rewrite_bytes_min) == REDIS_GROWTH[:2]


def test_replies_to_commands_have_the_same_defaults() -> None:
    assert Bounds() == Bounds(Settings().read_entries_max, Settings().read_bytes_max)
