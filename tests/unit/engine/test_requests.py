"""Requests: each is answered, by a decision or by a performer of several."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from typing import Any

import pytest

from headgate.engine import requests
from headgate.engine.decisions import table
from headgate.engine.entry import MAX_ID, MIN_ID
from headgate.engine.errors import Invalid
from headgate.engine.requests import Request
from headgate.engine.requests.bulk import BulkCursor, PlanRead, SplitRange
from headgate.engine.requests.deliveries import GroupCursor, ReadGroup
from headgate.engine.requests.entries import CountByTime, From, Trim, TrimTo
from headgate.engine.requests.streams import DetailStream
from tests.unit.driver import Driver, G, S, entry_id

for _module in pkgutil.iter_modules(requests.__path__, f"{requests.__name__}."):
    import_module(_module.name)
KINDS = [kind for kind in Request.__subclasses__() if kind.__module__.startswith(requests.__name__)]


def performers() -> set[type[Request[Any]]]:
    """Return the requests that the engine performs beside its table of decisions."""
    return set(Driver()._performers)


def test_only_what_may_be_asked_is_answered() -> None:
    assert performers() | set(table.DECISIONS) == set(KINDS)


@pytest.mark.parametrize(
    "request_",
    [
        DetailStream(S),
        SplitRange(S, MIN_ID, MAX_ID, 2),
        CountByTime(S),
        ReadGroup(G, b"a", [GroupCursor(S)], acked=[MAX_ID]),
    ],
    ids=lambda request: type(request).__name__,
)
async def test_what_takes_several_decisions_fails_in_a_transaction(request_: Request[Any]) -> None:
    engine = Driver()
    await engine.start(1)

    failure, length = await engine.perform_all([request_, Trim(S, TrimTo(max_length=0))])

    assert isinstance(failure, Invalid)
    assert length == 1


async def test_a_plan_from_now_on_has_nothing_in_a_transaction() -> None:
    engine = Driver()
    await engine.start(1, 2)

    [portions] = await engine.perform_all([PlanRead([BulkCursor(S, From.NOW)])])

    assert isinstance(portions, list)
    [portion] = portions
    assert (portion.after, portion.entries) == (entry_id(2), 0)
