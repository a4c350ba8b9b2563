"""Models of answers: what is encoded as it is has no models of pydantic in it, at any depth."""

from collections.abc import Iterator
from typing import Any, get_args, get_type_hints

import pytest
from pydantic import BaseModel
from typing_extensions import is_typeddict

from headgate.app.http.operation import Operation
from headgate.app.main import create_app
from headgate.app.settings import MEMORY, Settings
from headgate.app.wire.schemas.histories import GatewaySeries, GroupSeries, StreamSeries
from headgate.app.wire.schemas.settings import Policy, StreamConfig

DESCRIBED = {GatewaySeries, GroupSeries, Policy, StreamConfig, StreamSeries}
"""Models that only describe: what is returned in their place is always there, and is a dict."""


def encoded_as_they_are() -> list[Any]:
    app = create_app(Settings(data_dir=MEMORY))
    routes = [route for route in app.routes if isinstance(route, Operation)]
    return sorted(
        {route.response_model for route in routes if is_typeddict(route.response_model)},
        key=lambda model: model.__name__,
    )


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the models of pydantic that an annotation leads to."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    elif is_typeddict(annotation):
        for part in get_type_hints(annotation).values():
            yield from models_in(part)
    for part in get_args(annotation):
        yield from models_in(part)


@pytest.mark.parametrize("model", encoded_as_they_are(), ids=lambda model: model.__name__)
def test_an_answer_that_is_encoded_as_it_is_holds_no_model(model: Any) -> None:
    assert {*models_in(model)} <= DESCRIBED
