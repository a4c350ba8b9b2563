"""Details: the groups of a stream with their contents (XINFO STREAM FULL)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from headgate.engine.decisions.groups import consumer_info, group_info
from headgate.engine.decisions.pending import pending_item
from headgate.engine.replies import GroupDetail
from headgate.engine.requests.streams import DetailStream
from headgate.engine.state.keyspace import Keyspace


def group_details(keyspace: Keyspace, request: DetailStream, now_ms: int) -> list[GroupDetail]:
    """Describe the groups of a stream, with their pending entries and consumers.

    `described_max` bounds everything together: first all groups, then the contents of each group in
    order, until the bound is reached.

    Raises:
        StreamNotFound: the stream does not exist.
    """
    stream, steady_ms = keyspace.stream(request.stream), keyspace.steady_ms(now_ms)
    details, left = [], request.described_max
    groups = list(islice(stream.groups.values(), left))
    left = _without(left, groups)
    for group in groups:
        info = group_info(stream, group)
        if left == 0:
            details.append(GroupDetail(info, [], []))
            continue
        pending = islice(group.pel.walk(), _smaller(request.count, left))
        items = [pending_item(group.pel, each, steady_ms) for each in pending]
        left = _without(left, items)
        consumers = islice(group.consumers.values(), left)
        infos = [consumer_info(each, steady_ms) for each in consumers]
        left = _without(left, infos)
        details.append(GroupDetail(info, items, infos))
    return details


def _smaller(count: int | None, left: int | None) -> int | None:
    return left if count is None else count if left is None else min(count, left)


def _without(left: int | None, taken: Sequence[object]) -> int | None:
    return None if left is None else left - len(taken)
