"""Descriptions: streams, groups, consumers and pending entries in the form of the API."""

from headgate.app.wire.encoding import gap_wire
from headgate.app.wire.names import text_of
from headgate.app.wire.schemas.bulk import Portion, Split
from headgate.app.wire.schemas.deliveries import ConsumerPending, PendingEntry
from headgate.app.wire.schemas.settings import Policy, StreamConfig
from headgate.app.wire.schemas.streams import (
    Group,
    GroupConsumer,
    GroupDetail,
    GroupKeyList,
    Stream,
)
from headgate.app.wire.verdicts import PushState, verdict_of
from headgate.engine import replies


def stream_wire(info: replies.StreamInfo) -> Stream:
    archived_first_id = info.archived_first_id
    wire: Stream = {
        "name": text_of(info.name),
        "epoch": info.epoch,
        "length": info.length,
        "first_id": str(info.first_id) if info.length else None,
        "last_id": str(info.last_id),
        "max_deleted_id": str(info.max_deleted_id),
        "entries_added": info.entries_added,
        "groups": info.group_count,
        "chunks": info.chunk_count,
        "hot_bytes": info.hot_bytes,
        "cold_bytes": info.cold_bytes,
        "closed_at_ms": info.closed_at_ms,
        "archived_count": info.archived_count,
        "archived_first_id": None if archived_first_id is None else str(archived_first_id),
        "config": StreamConfig.wire(info.config),
    }
    if info.table is not None:
        rows, through, is_complete = info.table
        wire["table"] = {"rows": rows, "indexed_through": str(through), "is_complete": is_complete}
    return wire


def group_wire(info: replies.GroupInfo, push: PushState | None, now_ms: int) -> Group:
    """Describe a group; see `verdict_of` for the arguments."""
    wire: Group = {
        "name": text_of(info.name),
        "last_id": str(info.last_id),
        "entries_read": info.entries_read,
        "lag": info.lag,
        "pending": info.pending_count,
        "released": info.released_count,
        "delayed": info.delayed_count,
        "consumers": info.consumer_count,
        "policy": Policy.wire(info.policy),
        **verdict_of(info, push, now_ms),
    }
    if info.noisy_key is not None:
        key, waiting_count = info.noisy_key
        wire["noisy_key"] = {"key": None if key is None else text_of(key), "waiting": waiting_count}
    return wire


def group_detail_wire(detail: replies.GroupDetail, group: Group) -> GroupDetail:
    return {
        **group,
        "pending_entries": [pending_wire(item) for item in detail.pending],
        "consumer_details": [consumer_wire(consumer) for consumer in detail.consumers],
        "consumers_left_out": detail.info.consumer_count - len(detail.consumers),
    }


def consumer_wire(info: replies.ConsumerInfo) -> GroupConsumer:
    return {
        "name": text_of(info.name),
        "pending": info.pending_count,
        "idle_ms": info.idle_ms,
        "inactive_ms": info.inactive_ms,
    }


def keys_wire(keys: replies.GroupKeys) -> GroupKeyList:
    return {
        "keys": [
            {
                "key": None if info.key is None else text_of(info.key),
                "waiting": info.waiting_count,
                "pending": info.pending_count,
                "oldest_id": None if info.first_id is None else str(info.first_id),
                "oldest_age_ms": info.age_ms,
                "share": round(info.share, 4),
                "is_resting": info.is_resting,
            }
            for info in keys.keys
        ],
        "key_count": keys.key_count,
        "waiting": keys.waiting_count,
        "is_complete": keys.is_complete,
    }


def pending_wire(item: replies.PendingItem) -> PendingEntry:
    wire: PendingEntry = {
        "id": str(item.id),
        "consumer": None if item.consumer is None else text_of(item.consumer),
        "idle_ms": item.idle_ms,
        "deliveries": item.delivery_count,
    }
    if item.delay_ms:
        wire["delay_ms"] = item.delay_ms
    if item.last_error is not None:
        wire["last_error"] = text_of(item.last_error)
    if item.waits_for is not None:
        wire["waits_for"] = str(item.waits_for)
    return wire


def holder_wire(holder: tuple[bytes, int]) -> ConsumerPending:
    name, held = holder
    return {"name": text_of(name), "pending": held}


def portion_wire(portion: replies.Portion) -> Portion:
    return {
        "stream": text_of(portion.stream),
        "epoch": None if portion.epoch is None else str(portion.epoch),
        "after": str(portion.after),
        "end": str(portion.end),
        "entries": portion.entries,
        "backlog": portion.backlog,
        "last_id": str(portion.last_id),
        "first_id": None if portion.first_id is None else str(portion.first_id),
        "gap": gap_wire(portion.gap),
    }


def split_wire(split: replies.Split) -> Split:
    return {"after": str(split.after), "to": str(split.end), "entries": split.entries}
