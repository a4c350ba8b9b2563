"""Schedules, each as large as it may be, and a stream that is closed."""

from __future__ import annotations

from headgate.engine.limits import SCHEDULE_BYTES_MAX, SCHEDULE_FIELDS_MAX
from tests.stalls.case import Case, Target, destructive, request
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
    await target.ask("PUT", path, _DEFINITION)


async def _set_several(target: Target) -> None:
    for number in range(_SEVERAL):
        await _set(target, f"/v1/schedules/several-{number}")


CHANGING: list[Case] = [
    request("setSchedule", f"PUT {_LARGE}", _DEFINITION),
    request("updateSchedule", f"PATCH {_LARGE}", {"fields": _FIELDS}, prepare=_set),
    request("describeSchedule", f"GET {_LARGE}", prepare=_set),
    request("listSchedules", "GET /v1/schedules?limit=1000", prepare=_set_several),
    request("listScheduleTimes", "GET /v1/schedule-times?cron=0+0+29+2+*&count=5"),
    request("runSchedule", f"POST {_LARGE}/run", prepare=_set),
    request("deleteSchedule", f"DELETE {_LARGE}", prepare=_set),
]

DESTRUCTIVE: list[Case] = [
    destructive("closeStream", f"POST /v1/streams/{BIG}/close", {"fields": _FIELDS})
]
