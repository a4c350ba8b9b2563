"""Schedules, each as large as it may be, and a stream that is closed."""

from __future__ import annotations

import json
from typing import Any

from headgate.engine.limits import SCHEDULE_BYTES_MAX, SCHEDULE_FIELDS_MAX
from tests.stalls.case import Case, Target, request
from tests.stalls.client import JSON
from tests.stalls.keyspace import BIG

_LARGE = "/v1/schedules/large"
_SEVERAL = 200
_NAME_BYTES = 6

_FIELDS = {
    f"f{number:05}": "x" * (SCHEDULE_BYTES_MAX // SCHEDULE_FIELDS_MAX - _NAME_BYTES)
    for number in range(SCHEDULE_FIELDS_MAX)
}
_DEFINITION = {"stream": BIG, "fields": _FIELDS, "cron": "0 0 29 2 *", "paused": True}


async def _set(target: Target, path: str = _LARGE) -> None:
    answer = await target.client.ask("PUT", path, json.dumps(_DEFINITION).encode(), JSON)
    assert answer.status < 300, answer


async def _set_several(target: Target) -> None:
    for number in range(_SEVERAL):
        await _set(target, f"/v1/schedules/several-{number}")


def _definition(_: Any) -> dict[str, Any]:
    return _DEFINITION


CHANGING: list[Case] = [
    request("setSchedule", "PUT", _LARGE, _definition),
    request("updateSchedule", "PATCH", _LARGE, lambda _: {"fields": _FIELDS}, prepare=_set),
    request("describeSchedule", "GET", _LARGE, prepare=_set),
    request("listSchedules", "GET", "/v1/schedules?limit=1000", prepare=_set_several),
    request("runSchedule", "POST", f"{_LARGE}/run", prepare=_set),
    request("deleteSchedule", "DELETE", _LARGE, prepare=_set),
]

DESTRUCTIVE: list[Case] = [
    request(
        "closeStream",
        "POST",
        f"/v1/streams/{BIG}/close",
        lambda _: {"fields": _FIELDS},
        is_destructive=True,
    )
]
