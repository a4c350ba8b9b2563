"""Limits: each is defined in one place, from which settings, answers and the engine have it."""

import ast
import inspect
from pathlib import Path

import pytest
from pydantic import BaseModel

import headgate.app
from headgate.app.live.frames import server as frames
from headgate.app.redis_syntax.words import Bounds
from headgate.app.settings import Settings
from headgate.app.wire.schemas.limits import ChosenLimits, ConnectionLimits, Limits
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


def test_the_text_of_a_limit_stands_nowhere_else() -> None:
    texts = {field.description for field in ChosenLimits.model_fields.values()}
    places = [
        node.value
        for path in Path(headgate.app.__path__[0]).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Constant) and node.value in texts
    ]

    assert len(places) == len(texts) == len(ChosenLimits.model_fields)


def test_the_engine_has_the_same_defaults() -> None:
    settings = Settings()

    assert settings.waiters_max == WAITERS_MAX
    assert KeyspaceBounds() == tuple(getattr(settings, name) for name in KeyspaceBounds._fields)
    assert (settings.rewrite_percentage, settings.rewrite_bytes_min) == REDIS_GROWTH[:2]


def test_replies_to_commands_have_the_same_defaults() -> None:
    assert Bounds() == Bounds(Settings().read_entries_max, Settings().read_bytes_max)


@pytest.mark.parametrize("model", [Limits, frames.ConnectionLimits])
def test_limits_that_hold_are_all_there_and_without_a_choice(model: type[BaseModel]) -> None:
    schema = model.model_json_schema(mode="serialization")

    assert schema["required"] == list(model.model_fields)
    assert "minimum" not in str(schema)
    assert "default" not in str(schema)


def test_a_connection_is_held_to_its_own_limits_alone() -> None:
    live = Path(headgate.app.__path__[0]) / "live"
    named = {
        node.attr
        for path in live.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Attribute) and ast.unparse(node.value).endswith("limits")
    }

    known = {*ConnectionLimits.model_fields, *frames.ConnectionLimits.model_fields, "model_dump"}
    assert named >= {"credit_max", "send_ms_max"}
    assert named <= known
