"""Aspects of requests about groups and their consumers."""

from collections.abc import Collection

from headgate.app.auth.aspects.aspects import (
    SEE_GROUP,
    Aspects,
    Table,
    on_consumer,
    on_group,
    on_stream,
    policy_needs,
)
from headgate.app.auth.grants import Verb
from headgate.app.auth.principal import Need
from headgate.engine.requests import groups, keyspace


def _with_policy(request: groups.CreateGroup | groups.UpdateGroup) -> Collection[Need]:
    need = Need((Verb.MANAGE,), request.stream, request.group)
    return need, *policy_needs(request.stream, request.targets)


def _see_group(request: groups.DescribeGroup) -> Collection[Need]:
    return (Need(SEE_GROUP, request.stream, request.group, is_shared=True),)


def _require_groups(request: keyspace.RequireGroups) -> Collection[Need]:
    return [Need(SEE_GROUP, stream, request.group, is_shared=True) for stream in request.streams]


ASPECTS: Table = {
    groups.ListGroups: Aspects(needs=on_stream(Verb.READ, Verb.MANAGE)),
    groups.DescribeGroup: Aspects(needs=_see_group),
    groups.CreateGroup: Aspects(needs=_with_policy, is_act=True),
    groups.UpdateGroup: Aspects(needs=_with_policy, is_act=True),
    groups.DestroyGroup: Aspects(needs=on_group(Verb.MANAGE), is_act=True),
    groups.ListConsumers: Aspects(needs=on_group(*SEE_GROUP)),
    groups.DescribeConsumer: Aspects(needs=on_consumer(*SEE_GROUP)),
    groups.CreateConsumer: Aspects(needs=on_consumer(Verb.MANAGE), is_act=True),
    groups.DeleteConsumer: Aspects(needs=on_consumer(Verb.MANAGE), is_act=True),
    keyspace.RequireGroups: Aspects(needs=_require_groups),
}
