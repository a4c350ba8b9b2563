"""Aspects of requests about streams: describe, create, change, close, delete, dump, copy."""

from collections.abc import Collection

from headgate.app.auth.aspects.aspects import (
    Aspects,
    Table,
    on_all,
    on_both,
    on_deleted,
    on_nothing,
    on_stream,
)
from headgate.app.auth.grants import Verb
from headgate.app.auth.principal import Need
from headgate.engine.requests import attributes, dumps, streams


def _close(request: streams.CloseStream) -> Collection[Need]:
    needs = on_stream(Verb.MANAGE)(request)
    return (*needs, Need((Verb.APPEND,), request.stream)) if request.drafts else needs


ASPECTS: Table = {
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
    attributes.GetAttributes: Aspects(needs=on_stream(Verb.READ, Verb.APPEND, Verb.MANAGE)),
    attributes.ChangeAttributes: Aspects(needs=on_stream(Verb.MANAGE)),
    dumps.DumpStream: Aspects(needs=on_stream(Verb.READ), delivered=lambda image: image.length),
    dumps.RestoreStream: Aspects(
        needs=on_stream(Verb.MANAGE),
        is_act=True,
        appended=lambda restore: restore.image.length,
    ),
    dumps.CopyStream: Aspects(needs=on_both, is_act=True),
    dumps.MeasureStream: Aspects(needs=on_stream(Verb.READ)),
}
