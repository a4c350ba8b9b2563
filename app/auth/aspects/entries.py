"""Aspects of requests about entries: append, read, delete, trim, count."""

from collections.abc import Collection

from headgate.app.auth.aspects.aspects import (
    READ,
    Aspects,
    MessagingOperation,
    Table,
    on_cursors,
    on_nothing,
    on_stream,
)
from headgate.app.auth.grants import Verb
from headgate.app.auth.principal import Need
from headgate.engine.requests import entries, histogram, patterns, ranges

_READING = MessagingOperation("read", "receive")


def _add(request: entries.Add) -> Collection[Need]:
    need = Need((Verb.APPEND,), request.stream)
    if request.trim is None:
        return (need,)
    return need, Need((Verb.MANAGE,), request.stream)  # it removes entries of others


ASPECTS: Table = {
    entries.Add: Aspects(
        needs=_add,
        appended=lambda add: len(add.drafts),
        span=MessagingOperation("append", "send"),
    ),
    entries.Range: Aspects(needs=on_stream(Verb.READ), delivered=len, span=_READING),
    entries.RangeMatching: Aspects(
        needs=on_stream(Verb.READ), delivered=lambda page: len(page.entries), span=_READING
    ),
    entries.RangePacked: Aspects(
        needs=on_stream(Verb.READ),
        delivered=lambda page: sum(run.entry_count for run in page.runs),
        span=_READING,
    ),
    entries.Read: Aspects(
        needs=on_cursors,
        delivered=lambda reads: sum(len(read.entries) for read in reads),
        span=_READING,
    ),
    entries.FindTimes: Aspects(needs=on_stream(Verb.READ)),
    patterns.ReadPattern: Aspects(  # it is narrowed to what may be read
        needs=on_nothing,
        delivered=lambda read: sum(len(each.entries) for each in read.reads),
        span=_READING,
    ),
    entries.Delete: Aspects(needs=on_stream(Verb.MANAGE), is_act=True),
    entries.Trim: Aspects(needs=on_stream(Verb.MANAGE), is_act=True),
    entries.TrimArchive: Aspects(needs=on_stream(Verb.MANAGE), is_act=True),
    histogram.CountByTime: Aspects(needs=on_stream(Verb.READ)),
    ranges.OpenRanges: Aspects(
        needs=lambda request: [Need(READ, span.stream) for span in request.spans],
        delivered=lambda opened: sum(len(each.entries) for each in opened),
        span=_READING,
    ),
    ranges.ReadOn: Aspects(needs=on_stream(Verb.READ), delivered=len, span=_READING),
    ranges.CloseRange: Aspects(needs=on_stream(Verb.READ)),
}
