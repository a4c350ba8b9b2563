"""Rights: what each request needs. All ways in make requests, so this is decided here only.

The table has every request there is; a gateway with a request that is missing here does not start.
A request that several verbs allow lists them in one `Need`. Of several needs all must be met.
"""

from collections.abc import Callable, Collection, Iterable
from typing import Any

from headgate.app.auth.grants import Verb
from headgate.app.auth.principal import Need
from headgate.engine.entry import MIN_ID
from headgate.engine.requests import (
    Request,
    bulk,
    deliveries,
    dumps,
    entries,
    groups,
    histogram,
    keyspace,
    ranges,
    streams,
)

Rule = Callable[[Any], Collection[Need]]

_READ = (Verb.READ,)
_APPEND = (Verb.APPEND,)
_CONSUME = (Verb.CONSUME,)
_MANAGE = (Verb.MANAGE,)
_ADMIN = (Verb.ADMIN,)
_SEE_GROUP = (Verb.READ, Verb.CONSUME, Verb.MANAGE)
POLICY_TARGET = (Verb.APPEND, Verb.MANAGE)
"""One of them is needed on a stream to which a policy writes."""
_ANY = (Verb.READ, Verb.APPEND, Verb.CONSUME, Verb.MANAGE)


def rule_of(kind: type[Request[Any]]) -> Rule:
    """Return the rule for the needs of requests of a kind.

    Raises:
        KeyError: nobody has decided that.
    """
    return _RULES[kind]


def undecided() -> list[str]:
    """Return the names of requests for which no right is decided. There should be none."""
    return sorted(kind.__name__ for kind in Request.__subclasses__() if kind not in _RULES)


def is_act(kind: type[Request[Any]]) -> bool:
    """Tell whether requests of this kind manage something. The audit log has those."""
    return kind in _ACTS


def _nothing(_: Request[Any]) -> Collection[Need]:
    return ()


def _on_stream(*verbs: Verb) -> Rule:
    """Return the rule of requests about one stream."""

    def rule(request: Any) -> Collection[Need]:
        return (Need(verbs, request.stream),)

    return rule


def _on_streams(*verbs: Verb) -> Rule:
    """Return the rule of requests about several streams."""

    def rule(request: Any) -> Collection[Need]:
        return [Need(verbs, stream) for stream in request.streams]

    return rule


def _on_cursors(request: entries.Read | bulk.PlanRead) -> Collection[Need]:
    return [Need(_READ, cursor.stream) for cursor in request.cursors]


def _on_all(*verbs: Verb) -> Rule:
    """Return the rule of requests about all streams."""
    needs = (Need(verbs),)
    return lambda _: needs


def _on_group(*verbs: Verb) -> Rule:
    """Return the rule of requests about a group as a whole."""

    def rule(request: Any) -> Collection[Need]:
        return (Need(verbs, request.stream, request.group),)

    return rule


def _see_group(request: Any) -> Collection[Need]:
    return (Need(_SEE_GROUP, request.stream, request.group, is_shared=True),)


def _as_consumer(request: Any) -> Collection[Need]:
    """Return the need of a delivery; without a consumer it is about those of all."""
    return (Need(_CONSUME, request.stream, request.group, request.consumer),)


def _manage_consumer(request: Any) -> Collection[Need]:
    return (Need(_MANAGE, request.stream, request.group, request.consumer),)


def _add(request: entries.Add) -> Collection[Need]:
    need = Need(_APPEND, request.stream)
    if request.trim is None:
        return (need,)
    return need, Need(_MANAGE, request.stream)  # it removes entries of others


def _commit(request: bulk.CommitBatch) -> Collection[Need]:
    return [Need(_APPEND, stream) for stream in request.drafts]


def _read_group(request: deliveries.ReadGroup) -> Collection[Need]:
    return [
        Need(_CONSUME, cursor.stream, request.group, request.consumer) for cursor in request.cursors
    ]


def _ack_and_delete(request: deliveries.AckAndDelete) -> Collection[Need]:
    return Need(_CONSUME, request.stream, request.group), Need(_MANAGE, request.stream)


def _claim(request: deliveries.Claim) -> Collection[Need]:
    need = Need(_CONSUME, request.stream, request.group, request.consumer)
    if request.last_id == MIN_ID:
        return (need,)
    return need, Need(_MANAGE, request.stream, request.group)  # it moves the group's position


def _require_groups(request: keyspace.RequireGroups) -> Collection[Need]:
    return [Need(_SEE_GROUP, stream, request.group, is_shared=True) for stream in request.streams]


def _count(request: keyspace.CountStreams) -> Collection[Need]:
    return [Need(_ANY, stream, is_shared=True) for stream in request.streams or ()]


def _watch(request: keyspace.GetRevisions | keyspace.IfUnchanged) -> Collection[Need]:
    return [Need(_ANY, stream, is_shared=True) for stream in request.streams]


def _rename(request: keyspace.RenameStream | dumps.CopyStream) -> Collection[Need]:
    names = request.stream, request.to
    return *(Need(_MANAGE, name) for name in names), Need(_READ, request.stream)  # to be read there


def policy_needs(stream: bytes, targets: Iterable[bytes]) -> Collection[Need]:
    """Return the needs of a stream whose policies write to others: they read it as well."""
    others = [target for target in targets if target != stream]
    if not others:
        return ()
    return Need(_READ, stream), *(Need(POLICY_TARGET, target) for target in others)


def _with_policy(request: groups.CreateGroup | groups.UpdateGroup) -> Collection[Need]:
    need = Need(_MANAGE, request.stream, request.group)
    return need, *policy_needs(request.stream, request.targets)


_RULES: dict[type[Request[Any]], Rule] = {
    bulk.PlanRead: _on_cursors,
    bulk.SplitRange: _on_stream(Verb.READ),
    bulk.CommitBatch: _commit,
    bulk.LastCommit: _nothing,  # a writer is its principal's own
    deliveries.ReadGroup: _read_group,
    deliveries.GiveBack: _as_consumer,
    deliveries.Ack: _as_consumer,
    deliveries.AckThrough: _as_consumer,
    deliveries.AckAndDelete: _ack_and_delete,
    deliveries.Nack: _as_consumer,
    deliveries.Extend: _as_consumer,
    deliveries.Claim: _claim,
    deliveries.Autoclaim: _as_consumer,
    deliveries.ListPending: _as_consumer,
    deliveries.SumPending: _on_group(Verb.CONSUME),
    deliveries.Redrive: _on_group(Verb.MANAGE),
    dumps.DumpStream: _on_stream(Verb.READ),
    dumps.RestoreStream: _on_stream(Verb.MANAGE),
    dumps.CopyStream: _rename,
    dumps.MeasureStream: _on_stream(Verb.READ),
    entries.Add: _add,
    entries.Range: _on_stream(Verb.READ),
    entries.RangePacked: _on_stream(Verb.READ),
    entries.Read: _on_cursors,
    entries.Delete: _on_stream(Verb.MANAGE),
    entries.Trim: _on_stream(Verb.MANAGE),
    groups.ListGroups: _on_stream(Verb.READ, Verb.MANAGE),
    groups.DescribeGroup: _see_group,
    groups.CreateGroup: _with_policy,
    groups.UpdateGroup: _with_policy,
    groups.DestroyGroup: _on_group(Verb.MANAGE),
    groups.ListConsumers: _on_group(Verb.READ, Verb.CONSUME, Verb.MANAGE),
    groups.DescribeConsumer: lambda request: (
        Need(_SEE_GROUP, request.stream, request.group, request.consumer),
    ),
    groups.CreateConsumer: _manage_consumer,
    groups.DeleteConsumer: _manage_consumer,
    histogram.CountByTime: _on_stream(Verb.READ),
    keyspace.TellTime: _nothing,
    keyspace.DescribeKeyspace: _on_all(Verb.READ, Verb.ADMIN),
    keyspace.ListNames: _nothing,  # it has what may be read
    keyspace.ScanNames: _nothing,  # likewise
    keyspace.PickName: _nothing,  # likewise
    keyspace.CountStreams: _count,
    keyspace.RequireGroups: _require_groups,
    keyspace.InspectStream: _on_stream(Verb.READ),
    keyspace.GetRevisions: _watch,
    keyspace.IfUnchanged: _watch,
    keyspace.DeleteStreams: _on_streams(Verb.MANAGE),
    keyspace.DeleteAll: _on_all(Verb.ADMIN),
    keyspace.RenameStream: _rename,
    keyspace.ExpireStream: _on_stream(Verb.MANAGE),
    keyspace.PersistStream: _on_stream(Verb.MANAGE),
    keyspace.TimeToLive: _on_stream(Verb.READ),
    keyspace.GetExpiry: _on_stream(Verb.READ),
    keyspace.SetCounters: _on_stream(Verb.MANAGE),
    keyspace.RememberKey: _on_stream(Verb.APPEND),
    keyspace.GetDefaults: _on_all(Verb.ADMIN),
    keyspace.ChangeDefaults: _on_all(Verb.ADMIN),
    ranges.OpenRanges: lambda request: [Need(_READ, span.stream) for span in request.spans],
    ranges.ReadOn: _on_stream(Verb.READ),
    ranges.CloseRange: _on_stream(Verb.READ),
    streams.Observe: _on_all(Verb.ADMIN),
    streams.ListStreams: _nothing,  # it has what may be read
    streams.DescribeStream: _on_stream(Verb.READ, Verb.MANAGE),
    streams.DetailStream: _on_stream(Verb.READ),
    streams.CreateStream: _on_stream(Verb.MANAGE),
    streams.UpdateStream: _on_stream(Verb.MANAGE),
    streams.DeleteStream: _on_stream(Verb.MANAGE),
}

_ACTS: frozenset[type[Request[Any]]] = frozenset(
    {
        deliveries.AckAndDelete,
        deliveries.Redrive,
        dumps.RestoreStream,
        dumps.CopyStream,
        entries.Delete,
        entries.Trim,
        groups.CreateGroup,
        groups.UpdateGroup,
        groups.DestroyGroup,
        groups.CreateConsumer,
        groups.DeleteConsumer,
        keyspace.DeleteStreams,
        keyspace.DeleteAll,
        keyspace.RenameStream,
        keyspace.ExpireStream,
        keyspace.PersistStream,
        keyspace.SetCounters,
        keyspace.ChangeDefaults,
        streams.CreateStream,
        streams.UpdateStream,
        streams.DeleteStream,
    }
)
