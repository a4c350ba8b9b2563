"""Requests: what may be asked is answered, by a decision or by who waits for several."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from typing import Any

import msgspec
import pytest

from headgate.engine import requests
from headgate.engine.decisions import table
from headgate.engine.requests import Request
from tests.unit.driver import Driver

for _module in pkgutil.iter_modules(requests.__path__, f"{requests.__name__}."):
    import_module(_module.name)
KINDS = [kind for kind in Request.__subclasses__() if kind.__module__.startswith(requests.__name__)]


def performers() -> set[type[Request[Any]]]:
    """Return what the engine performs beside its table of decisions."""
    return set(Driver()._performers)


@pytest.mark.parametrize("kind", KINDS)
def test_what_may_be_asked_is_answered(kind: type[Request[Any]]) -> None:
    assert kind in table._DECIDE or kind in performers()


def test_only_what_may_be_asked_is_answered() -> None:
    assert performers() | set(table._DECIDE) == set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_a_request_is_a_value(kind: type[Request[Any]]) -> None:
    assert kind.__struct_config__.frozen
    assert kind.__struct_config__.eq
    assert issubclass(kind, msgspec.Struct)
