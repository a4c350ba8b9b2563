"""The rights that each kind of request needs, and how it is counted and traced."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from headgate.app.auth.grants import Verb
from headgate.app.auth.principal import ADMIN, Need
from headgate.engine.entry import MIN_ID
from headgate.engine.requests import (
    Request,
    bulk,
    commits,
    deliveries,
    entries,
    groups,
    keyspace,
    schedules,
    streams,
    tables,
)
from headgate.engine.requests.keyspace import is_reserved

Rule = Callable[[Any], Collection[Need]]
"""Returns the needs of a request. A need may name several verbs: one is enough. All must be met."""

READ = (Verb.READ,)
SEE_GROUP = (Verb.READ, Verb.CONSUME, Verb.MANAGE)
SEE_STREAM = (Verb.READ, Verb.APPEND, Verb.CONSUME, Verb.MANAGE, Verb.PUSH)
DESCRIBE = (Verb.READ, Verb.MANAGE)
POLICY_TARGET = (Verb.APPEND, Verb.MANAGE)
"""One of them is needed on a stream to which a policy writes."""


class MessagingOperation(NamedTuple):
    name: str
    type: Literal["send", "receive", "settle"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Aspects:
    needs: Rule
    is_act: bool = False
    """It manages something. The audit log has those."""
    appended: Callable[[Any], int] | None = None
    """Returns the number of entries that a request appends."""
    delivered: Callable[[Any], int] | None = None
    """Returns the number of entries in a reply."""
    span: MessagingOperation | None = None
    """Descriptions and lists have none: operators ask for them, they are no part of a flow."""


Table = dict[type[Request[Any]], Aspects]


def on_nothing(_: Request[Any]) -> Collection[Need]:
    return ()


def on_stream(*verbs: Verb) -> Rule:
    def rule(request: Any) -> Collection[Need]:
        return (Need(verbs, request.stream),)

    return rule


def on_streams(*verbs: Verb, is_shared: bool = False) -> Rule:
    """Return the rule of requests about several streams; without streams they need nothing."""

    def rule(request: Any) -> Collection[Need]:
        return [Need(verbs, stream, is_shared=is_shared) for stream in request.streams or ()]

    return rule


def on_deleted(request: Any) -> Collection[Need]:
    """Return the needs of a deletion; only an operator may delete the gateway's own streams."""
    names = (request.stream,) if hasattr(request, "stream") else request.streams
    return [ADMIN if is_reserved(name) else Need((Verb.MANAGE,), name) for name in names]


def on_cursors(request: Any) -> Collection[Need]:
    return [Need(READ, cursor.stream) for cursor in request.cursors]


def _read(request: entries.Read) -> Collection[Need]:
    return [Need(READ, cursor.stream, keys=request.keys) for cursor in request.cursors]


def on_row(*verbs: Verb) -> Rule:
    def rule(request: Any) -> Collection[Need]:
        keys = entries.RowKeys(request.key, is_prefix=False)
        return (Need(verbs, request.stream, keys=keys),)

    return rule


def _read_table(request: tables.ReadTable) -> Collection[Need]:
    return (Need(READ, request.stream, keys=entries.RowKeys(request.prefix)),)


def on_all(*verbs: Verb) -> Rule:
    needs = (Need(verbs),)
    return lambda _: needs


def on_group(*verbs: Verb) -> Rule:
    def rule(request: Any) -> Collection[Need]:
        return (Need(verbs, request.stream, request.group),)

    return rule


def on_consumer(*verbs: Verb) -> Rule:
    """Return the rule of requests about a consumer; one without a name is about all of them."""

    def rule(request: Any) -> Collection[Need]:
        return (Need(verbs, request.stream, request.group, request.consumer),)

    return rule


def on_both(request: Any) -> Collection[Need]:
    """Return the needs of a rename: the stream can be read under its new name."""
    names = request.stream, request.to
    return *(Need((Verb.MANAGE,), name) for name in names), Need(READ, request.stream)


def policy_needs(stream: bytes, targets: Iterable[bytes]) -> Collection[Need]:
    """Return the needs of policies that write to other streams: they read the stream as well."""
    others = [target for target in targets if target != stream]
    if not others:
        return ()
    return Need(READ, stream), *(Need(POLICY_TARGET, target) for target in others)


def _commit(request: bulk.CommitBatch) -> Collection[Need]:
    return [Need((Verb.APPEND,), stream) for stream in request.drafts]


def _commit_steps(request: commits.CommitSteps) -> Collection[Need]:
    return [need for step in request.steps for need in ASPECTS[type(step)].needs(step)]


def _appended(request: commits.CommitSteps) -> int:
    counts = [ASPECTS[type(step)].appended for step in request.steps]
    return sum(count(step) for count, step in zip(counts, request.steps, strict=True) if count)


_OWN = on_consumer(Verb.CONSUME)


def _read_group(request: deliveries.ReadGroup) -> Collection[Need]:
    return [
        Need((Verb.CONSUME,), cursor.stream, request.group, request.consumer)
        for cursor in request.cursors
    ]


def _read_groups(request: deliveries.ReadGroups) -> Collection[Need]:
    targets = () if request.create is None else request.create.targets
    return [Need(POLICY_TARGET, target) for target in targets]


def _ack_and_delete(request: deliveries.AckAndDelete) -> Collection[Need]:
    consume = Need((Verb.CONSUME,), request.stream, request.group)
    return consume, Need((Verb.MANAGE,), request.stream)


def _claim(request: deliveries.Claim) -> Collection[Need]:
    if request.last_id == MIN_ID:
        return _OWN(request)
    # It moves the group's position.
    return *_OWN(request), Need((Verb.MANAGE,), request.stream, request.group)


_APPENDING = MessagingOperation("append", "send")
_READING = MessagingOperation("read", "receive")


def _add(request: entries.Add) -> Collection[Need]:
    need = Need((Verb.APPEND,), request.stream)
    if request.trim is None:
        return (need,)
    return need, Need((Verb.MANAGE,), request.stream)  # it removes entries of others


def _with_policy(request: groups.CreateGroup | groups.UpdateGroup) -> Collection[Need]:
    need = Need((Verb.MANAGE,), request.stream, request.group)
    return need, *policy_needs(request.stream, request.targets)


def _see_group(request: groups.DescribeGroup) -> Collection[Need]:
    return (Need(SEE_GROUP, request.stream, request.group, is_shared=True),)


def _require_groups(request: keyspace.RequireGroups) -> Collection[Need]:
    return [Need(SEE_GROUP, stream, request.group, is_shared=True) for stream in request.streams]


_SEE = on_streams(*SEE_STREAM, is_shared=True)


def _set(request: Any) -> tuple[Need, ...]:
    stream = request.definition.stream
    return Need((Verb.MANAGE,), stream), Need((Verb.APPEND,), stream)


_BY_GATEWAY = Aspects(needs=on_all(Verb.ADMIN))


def _close(request: streams.CloseStream) -> Collection[Need]:
    needs = on_stream(Verb.MANAGE)(request)
    return (*needs, Need((Verb.APPEND,), request.stream)) if request.drafts else needs


ASPECTS: Table = {
    bulk.PlanRead: Aspects(needs=on_cursors),
    bulk.SplitRange: Aspects(needs=on_stream(Verb.READ)),
    bulk.CommitBatch: Aspects(
        needs=_commit,
        appended=lambda commit: sum(map(len, commit.drafts.values())),
        span=MessagingOperation("commit", "send"),
    ),
    commits.CommitSteps: Aspects(
        needs=_commit_steps, appended=_appended, span=MessagingOperation("commit", "send")
    ),
    bulk.LastCommit: Aspects(needs=on_nothing),  # a writer is its principal's own,
    deliveries.ReadGroup: Aspects(
        needs=_read_group,
        delivered=lambda reads: sum(len(read.deliveries) for read in reads),
        span=MessagingOperation("read", "receive"),
    ),
    deliveries.ReadGroups: Aspects(  # it is narrowed to what may be consumed
        needs=_read_groups,
        delivered=lambda read: read.delivery_count,
        span=MessagingOperation("read", "receive"),
    ),
    deliveries.GiveBack: Aspects(needs=_OWN),
    deliveries.Ack: Aspects(needs=_OWN, span=MessagingOperation("ack", "settle")),
    deliveries.AckThrough: Aspects(needs=_OWN, span=MessagingOperation("ack", "settle")),
    deliveries.AckAndDelete: Aspects(needs=_ack_and_delete, is_act=True),
    deliveries.Nack: Aspects(needs=_OWN, span=MessagingOperation("nack", "settle")),
    deliveries.Extend: Aspects(needs=_OWN, span=MessagingOperation("extend", "settle")),
    deliveries.Claim: Aspects(
        needs=_claim,
        delivered=lambda claimed: len(claimed.deliveries),
        span=MessagingOperation("claim", "receive"),
    ),
    deliveries.Autoclaim: Aspects(
        needs=_OWN,
        delivered=lambda claimed: len(claimed.deliveries),
        span=MessagingOperation("autoclaim", "receive"),
    ),
    deliveries.ListPending: Aspects(needs=_OWN),
    deliveries.SumPending: Aspects(needs=on_group(Verb.CONSUME)),
    deliveries.Redrive: Aspects(needs=on_group(Verb.MANAGE), is_act=True),
    entries.Add: Aspects(needs=_add, appended=lambda add: len(add.drafts), span=_APPENDING),
    entries.Range: Aspects(needs=on_stream(Verb.READ), delivered=len, span=_READING),
    entries.RangeMatching: Aspects(
        needs=on_stream(Verb.READ), delivered=lambda page: len(page.entries), span=_READING
    ),
    entries.RangePacked: Aspects(
        needs=on_stream(Verb.READ),
        delivered=lambda page: sum(run.entry_count for run in page.runs),
        span=_READING,
    ),
    tables.ReadTable: Aspects(
        needs=_read_table, delivered=lambda page: len(page.rows), span=_READING
    ),
    tables.ReadRow: Aspects(
        needs=on_row(Verb.READ), delivered=lambda read: read.row is not None, span=_READING
    ),
    tables.PutRow: Aspects(needs=on_row(Verb.APPEND), appended=lambda _: 1, span=_APPENDING),
    tables.DeleteRow: Aspects(needs=on_row(Verb.APPEND), appended=lambda _: 1, span=_APPENDING),
    entries.Read: Aspects(
        needs=_read, delivered=lambda reads: sum(len(read.entries) for read in reads), span=_READING
    ),
    entries.FindTimes: Aspects(needs=on_stream(Verb.READ)),
    entries.ReadPattern: Aspects(  # it is narrowed to what may be read
        needs=on_nothing,
        delivered=lambda read: sum(len(each.entries) for each in read.reads),
        span=_READING,
    ),
    entries.Delete: Aspects(needs=on_stream(Verb.MANAGE), is_act=True),
    entries.Trim: Aspects(needs=on_stream(Verb.MANAGE), is_act=True),
    entries.TrimArchive: Aspects(needs=on_stream(Verb.MANAGE), is_act=True),
    entries.CountByTime: Aspects(needs=on_stream(Verb.READ)),
    entries.OpenRanges: Aspects(
        needs=lambda request: [Need(READ, span.stream) for span in request.spans],
        delivered=lambda opened: sum(len(each.entries) for each in opened),
        span=_READING,
    ),
    entries.ReadOn: Aspects(needs=on_stream(Verb.READ), delivered=len, span=_READING),
    entries.CloseRange: Aspects(needs=on_stream(Verb.READ)),
    groups.ListGroups: Aspects(needs=on_stream(Verb.READ, Verb.MANAGE)),
    groups.DescribeGroup: Aspects(needs=_see_group),
    groups.CreateGroup: Aspects(needs=_with_policy, is_act=True),
    groups.UpdateGroup: Aspects(needs=_with_policy, is_act=True),
    groups.DestroyGroup: Aspects(needs=on_group(Verb.MANAGE), is_act=True),
    groups.ListConsumers: Aspects(needs=on_group(*SEE_GROUP)),
    groups.ListKeys: Aspects(needs=on_group(*SEE_GROUP)),
    groups.DescribeConsumer: Aspects(needs=on_consumer(*SEE_GROUP)),
    groups.CreateConsumer: Aspects(needs=on_consumer(Verb.MANAGE), is_act=True),
    groups.DeleteConsumer: Aspects(needs=on_consumer(Verb.MANAGE), is_act=True),
    keyspace.RequireGroups: Aspects(needs=_require_groups),
    keyspace.TellTime: Aspects(needs=on_nothing),
    keyspace.DescribeKeyspace: Aspects(needs=on_all(Verb.READ, Verb.ADMIN)),
    keyspace.ListNames: Aspects(needs=on_nothing),  # it has what may be read
    keyspace.ScanNames: Aspects(needs=on_nothing),  # likewise
    keyspace.PickName: Aspects(needs=on_nothing),  # likewise
    keyspace.CountStreams: Aspects(needs=_SEE),
    keyspace.InspectStream: Aspects(
        needs=on_stream(Verb.READ), delivered=lambda inspection: len(inspection.entries)
    ),
    keyspace.GetRevisions: Aspects(needs=_SEE),
    keyspace.IfUnchanged: Aspects(needs=_SEE),
    keyspace.DeleteStreams: Aspects(needs=on_deleted, is_act=True),
    keyspace.DeleteAll: Aspects(needs=on_all(Verb.ADMIN), is_act=True),
    keyspace.RenameStream: Aspects(needs=on_both, is_act=True),
    keyspace.ExpireStream: Aspects(needs=on_stream(Verb.MANAGE), is_act=True),
    keyspace.PersistStream: Aspects(needs=on_stream(Verb.MANAGE), is_act=True),
    keyspace.TimeToLive: Aspects(needs=on_stream(Verb.READ)),
    keyspace.GetExpiry: Aspects(needs=on_stream(Verb.READ)),
    keyspace.SetCounters: Aspects(needs=on_stream(Verb.MANAGE), is_act=True),
    keyspace.RememberKey: Aspects(needs=on_stream(Verb.APPEND)),
    keyspace.GetDefaults: Aspects(needs=on_all(Verb.ADMIN)),
    keyspace.ChangeDefaults: Aspects(needs=on_all(Verb.ADMIN), is_act=True),
    schedules.SetSchedule: Aspects(needs=_set, is_act=True),
    schedules.GetSchedule: Aspects(needs=on_nothing),  # it has the streams that may be seen
    schedules.ListSchedules: Aspects(needs=on_nothing),  # likewise
    schedules.DeleteSchedule: Aspects(needs=on_nothing, is_act=True),  # those that may be managed
    schedules.AwaitSchedules: _BY_GATEWAY,
    schedules.RunSchedule: _BY_GATEWAY,
    schedules.PassSchedule: _BY_GATEWAY,
    streams.Observe: Aspects(needs=on_all(Verb.ADMIN)),
    streams.ListStreams: Aspects(needs=on_nothing),  # it has what may be read
    streams.DescribeStream: Aspects(needs=on_stream(Verb.READ, Verb.MANAGE)),
    streams.DetailStream: Aspects(
        needs=on_stream(Verb.READ), delivered=lambda detail: len(detail.entries)
    ),
    streams.CreateStream: Aspects(needs=on_stream(Verb.MANAGE), is_act=True),
    streams.UpdateStream: Aspects(needs=on_stream(Verb.MANAGE), is_act=True),
    streams.CloseStream: Aspects(
        needs=_close, is_act=True, appended=lambda close: len(close.drafts)
    ),
    streams.DeleteStream: Aspects(needs=on_deleted, is_act=True),
    streams.GetAttributes: Aspects(needs=on_stream(Verb.READ, Verb.APPEND, Verb.MANAGE)),
    streams.ChangeAttributes: Aspects(needs=on_stream(Verb.MANAGE)),
    keyspace.DumpStream: Aspects(needs=on_stream(Verb.READ), delivered=lambda image: image.length),
    keyspace.RestoreStream: Aspects(
        needs=on_stream(Verb.MANAGE), is_act=True, appended=lambda restore: restore.image.length
    ),
    keyspace.CopyStream: Aspects(needs=on_both, is_act=True),
    keyspace.MeasureStream: Aspects(needs=on_stream(Verb.READ)),
}
"""All ways in make requests, so their aspects stand here only.

A gateway with a request that is missing here does not start.
"""


def aspects_of(request: Request[Any]) -> Aspects:
    return ASPECTS[type(request)]


def undecided() -> list[str]:
    """Return the requests for which no right is decided; there should be none."""
    return sorted(kind.__name__ for kind in Request.__subclasses__() if kind not in ASPECTS)
