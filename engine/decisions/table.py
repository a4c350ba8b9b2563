"""The table of decisions: maps the type of a request to the function that decides it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from headgate.engine.decisions import (
    Decision,
    bulk,
    deliveries,
    entries,
    group_reads,
    groups,
    keys,
    keyspace,
    pending,
    policies,
    streams,
    trims,
    writes,
)
from headgate.engine.errors import Invalid
from headgate.engine.requests import Request
from headgate.engine.requests import bulk as bulk_requests
from headgate.engine.requests import deliveries as delivery_requests
from headgate.engine.requests import entries as entry_requests
from headgate.engine.requests import groups as group_requests
from headgate.engine.requests import keyspace as keyspace_requests
from headgate.engine.requests import streams as stream_requests
from headgate.engine.state.keyspace import Keyspace

T = TypeVar("T")

_DECIDE: dict[type[Request[Any]], Callable[[Keyspace, Any, int], Decision[Any]]] = {
    stream_requests.ListStreams: streams.list_streams,
    stream_requests.DescribeStream: streams.describe_stream,
    stream_requests.CreateStream: streams.create_stream,
    stream_requests.UpdateStream: streams.update_stream,
    stream_requests.DeleteStream: streams.delete_stream,
    entry_requests.Add: entries.add,
    entry_requests.Range: entries.range_,
    entry_requests.Read: entries.read,
    entry_requests.Delete: entries.delete,
    entry_requests.Trim: trims.trim,
    group_requests.ListGroups: groups.list_groups,
    group_requests.DescribeGroup: groups.describe_group,
    group_requests.CreateGroup: groups.create_group,
    group_requests.UpdateGroup: groups.update_group,
    group_requests.DestroyGroup: groups.destroy_group,
    group_requests.ListConsumers: groups.list_consumers,
    group_requests.DescribeConsumer: groups.describe_consumer,
    group_requests.CreateConsumer: groups.create_consumer,
    group_requests.DeleteConsumer: groups.delete_consumer,
    delivery_requests.ReadGroup: group_reads.read_group,
    delivery_requests.GiveBack: deliveries.give_back,
    delivery_requests.Ack: deliveries.ack,
    delivery_requests.AckThrough: deliveries.ack_through,
    delivery_requests.AckAndDelete: deliveries.ack_and_delete,
    delivery_requests.Nack: deliveries.nack,
    delivery_requests.Extend: deliveries.extend,
    delivery_requests.Claim: deliveries.claim,
    delivery_requests.Autoclaim: deliveries.autoclaim,
    delivery_requests.ListPending: pending.list_pending,
    delivery_requests.SumPending: pending.sum_pending,
    delivery_requests.Redrive: policies.redrive,
    bulk_requests.PlanRead: bulk.plan_read,
    bulk_requests.CommitBatch: writes.commit_batch,
    bulk_requests.LastCommit: bulk.last_commit,
    keyspace_requests.TellTime: keyspace.tell_time,
    keyspace_requests.DescribeKeyspace: keyspace.describe_keyspace,
    keyspace_requests.ListNames: keyspace.list_names,
    keyspace_requests.ScanNames: keyspace.scan_names,
    keyspace_requests.CountStreams: keyspace.count_streams,
    keyspace_requests.RequireGroups: keyspace.require_groups,
    keyspace_requests.InspectStream: keyspace.inspect_stream,
    keyspace_requests.DeleteStreams: keyspace.delete_streams,
    keyspace_requests.DeleteAll: keyspace.delete_all,
    keyspace_requests.RenameStream: keyspace.rename_stream,
    keyspace_requests.ExpireStream: keyspace.expire_stream,
    keyspace_requests.PersistStream: keyspace.persist_stream,
    keyspace_requests.TimeToLive: keyspace.time_to_live,
    keyspace_requests.SetCounters: keyspace.set_counters,
    keyspace_requests.RememberKey: keys.remember_key,
    keyspace_requests.GetDefaults: keyspace.get_defaults,
    keyspace_requests.ChangeDefaults: keyspace.change_defaults,
}


def decide(keyspace: Keyspace, request: Request[T], now_ms: int) -> Decision[T]:
    """Decide a request, without waiting.

    Args:
        keyspace: the state.
        request: the request; a read that finds nothing replies so at once.
        now_ms: unix time.

    Raises:
        StreamError: one of the errors that the request lists. In this case nothing changes.
        Invalid: one decision is not enough for this request, because it describes a long list.
    """
    decide_about = _DECIDE.get(type(request))
    if decide_about is None:
        raise Invalid(f"{type(request).__name__} takes more than one moment: ask for it by itself")
    decision: Decision[T] = decide_about(keyspace, request, now_ms)
    return decision
