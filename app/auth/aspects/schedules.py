"""Aspects of requests about schedules: who sets one lets it append, whoever he is later."""

from typing import Any

from headgate.app.auth.aspects.aspects import Aspects, Table, on_all, on_nothing
from headgate.app.auth.grants import Verb
from headgate.app.auth.principal import Need
from headgate.engine.requests import schedules


def _set(request: Any) -> tuple[Need, ...]:
    stream = request.definition.stream
    return Need((Verb.MANAGE,), stream), Need((Verb.APPEND,), stream)


_BY_GATEWAY = Aspects(needs=on_all(Verb.ADMIN))

ASPECTS: Table = {
    schedules.SetSchedule: Aspects(needs=_set, is_act=True),
    schedules.GetSchedule: Aspects(needs=on_nothing),  # it has the streams that may be seen
    schedules.ListSchedules: Aspects(needs=on_nothing),  # likewise
    schedules.DeleteSchedule: Aspects(needs=on_nothing, is_act=True),  # those that may be managed
    schedules.AwaitSchedules: _BY_GATEWAY,
    schedules.RunSchedule: _BY_GATEWAY,
    schedules.PassSchedule: _BY_GATEWAY,
}
