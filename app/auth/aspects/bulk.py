"""Aspects of requests in bulk: plans, splits, batches of writers."""

from collections.abc import Collection

from headgate.app.auth.aspects.aspects import (
    Aspects,
    MessagingOperation,
    Table,
    on_cursors,
    on_nothing,
    on_stream,
)
from headgate.app.auth.grants import Verb
from headgate.app.auth.principal import Need
from headgate.engine.requests import bulk


def _commit(request: bulk.CommitBatch) -> Collection[Need]:
    return [Need((Verb.APPEND,), stream) for stream in request.drafts]


ASPECTS: Table = {
    bulk.PlanRead: Aspects(needs=on_cursors),
    bulk.SplitRange: Aspects(needs=on_stream(Verb.READ)),
    bulk.CommitBatch: Aspects(
        needs=_commit,
        appended=lambda commit: sum(map(len, commit.drafts.values())),
        span=MessagingOperation("commit", "send"),
    ),
    bulk.LastCommit: Aspects(needs=on_nothing),  # a writer is its principal's own
}
