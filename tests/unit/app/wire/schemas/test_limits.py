"""Limits: each is defined in one place, from which settings, answers and the engine have it."""

import inspect

import pytest
from pydantic import BaseModel

from headgate.app.live.frames import server as frames
from headgate.app.redis_syntax.words import Bounds
from headgate.app.settings import Settings
from headgate.app.wire.schemas.limits import ChosenLimits, Limits
from headgate.engine.journal.rewrites import REDIS_GROWTH
from headgate.engine.limits import WAITERS_MAX
from headgate.engine.state.bounds import KeyspaceBounds

OF_THE_MACHINE = {"memory_bytes_max", "sockets_max", "durable"}
"""Limits has them again, as they follow from the machine or from other settings there."""

SETTINGS_AND_LIMITS = {*Settings.__mro__, *Limits.__mro__, *frames.ConnectionLimits.__mro__}


@pytest.mark.parametrize("name", Limits.model_fields)
def test_a_limit_is_defined_once(name: str) -> None:
    places = {
        kind.__name__
        for kind in SETTINGS_AND_LIMITS
        if issubclass(kind, BaseModel) and name in inspect.get_annotations(kind)
    }

    assert len(places - ({"Limits"} if name in OF_THE_MACHINE else set())) == 1


@pytest.mark.parametrize("name", ChosenLimits.model_fields)
def test_a_limit_is_told_in_the_words_of_its_setting(name: str) -> None:
    limit, setting = Limits.model_fields[name], Settings.model_fields[name]

    assert limit.description
    assert limit.description == setting.description


def test_the_engine_has_the_same_defaults() -> None:
    settings = Settings()

    assert settings.waiters_max == WAITERS_MAX
    assert KeyspaceBounds() == tuple(getattr(settings, name) for name in KeyspaceBounds._fields)
    assert (settings.rewrite_percentage, settings.rewrite_bytes_min) == REDIS_GROWTH[:2]


def test_replies_to_commands_have_the_same_defaults() -> None:
    assert Bounds() == Bounds(Settings().read_entries_max, Settings().read_bytes_max)
