"""Aspects of requests about names and what stands under them, as Redis commands ask."""

from headgate.app.auth.aspects.aspects import (
    SEE_STREAM,
    Aspects,
    Table,
    on_all,
    on_both,
    on_deleted,
    on_nothing,
    on_stream,
    on_streams,
)
from headgate.app.auth.grants import Verb
from headgate.engine.requests import keyspace

_SEE = on_streams(*SEE_STREAM, is_shared=True)

ASPECTS: Table = {
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
}
