"""The journal's records: every command reads back as it was written."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.engine import commands as c
from headgate.engine.config import StreamConfig
from headgate.engine.entry import Entry, EntryId
from headgate.engine.limits import COUNT_MAX, U64_MAX
from headgate.engine.schedules.definition import Definition
from headgate.engine.schedules.progress import Progress, Refusal, ScheduleInfo

names = st.binary(max_size=4)
ids = st.builds(EntryId, st.integers(0, U64_MAX), st.integers(0, U64_MAX))
id_lists = st.lists(ids, max_size=3)
counts = st.lists(st.tuples(ids, st.integers(0, COUNT_MAX)), max_size=3)
times = st.integers(0, 2**62)
optional = st.one_of(st.none(), st.integers(0, 2**62))
fields = st.lists(st.binary(max_size=4), min_size=2, max_size=4).map(tuple)
entries = st.lists(st.builds(Entry, ids, fields), max_size=3)
configs = st.builds(StreamConfig, max_length=optional, max_age_ms=optional)

refusals = st.builds(Refusal, st.text(max_size=4), st.text(max_size=4), times)
progress = st.builds(
    Progress,
    *(optional, times, optional, st.none() | ids, times, times, st.none() | refusals),
)
definitions = st.builds(Definition, names, fields, st.text(max_size=4), st.just("UTC"))
schedules = st.builds(ScheduleInfo, names, times, times, definitions, progress)

every_command = st.one_of(
    st.builds(c.StreamCreated, names, times, configs),
    st.builds(c.StreamConfigured, names, configs),
    st.builds(c.StreamDeleted, names),
    st.builds(c.EntriesAdded, names, entries),
    st.builds(c.StreamTrimmed, names, ids),
    st.builds(c.EntriesDeleted, names, id_lists),
    st.builds(c.GroupCreated, names, names, ids, optional),
    st.builds(c.GroupMoved, names, names, ids, optional),
    st.builds(c.GroupDestroyed, names, names),
    st.builds(c.ConsumerSeen, names, names, names, times),
    st.builds(c.ConsumerDeleted, names, names, names, st.booleans()),
    st.builds(c.EntriesDelivered, names, names, names, times, id_lists, id_lists, ids, optional),
    st.builds(c.EntriesRedelivered, names, names, names, times, id_lists),
    st.builds(c.EntriesAcked, names, names, id_lists),
    st.builds(c.EntriesReleased, names, names, counts),
    st.builds(c.ErrorNoted, names, names, id_lists, st.binary(max_size=4)),
    st.builds(c.ScheduleSet, schedules),
    st.builds(c.ScheduleDeleted, names),
    st.builds(c.ScheduleAdvanced, names, progress),
    st.builds(c.BatchCommitted, names, times, times),
    st.builds(c.EntriesClaimed, names, names, names, times, times, counts, id_lists, ids),
)


@given(st.lists(every_command, max_size=3))
def test_a_record_reads_back_as_it_was_written(batch: list[c.Command]) -> None:
    assert c.decode(c.encode(batch)) == batch


@given(st.builds(c.EntriesAdded, names, entries))
def test_entries_and_ids_come_back_as_what_they_are(command: c.EntriesAdded) -> None:
    (decoded,) = c.decode(c.encode([command]))
    assert isinstance(decoded, c.EntriesAdded)
    assert all(type(entry) is Entry for entry in decoded.entries)
    assert all(type(entry.id) is EntryId for entry in decoded.entries)
    assert all(type(entry.fields) is tuple for entry in decoded.entries)


@pytest.mark.parametrize("record", [b"", b"\x00", b"\x91\x92\xff\xa1s", b"\x91\x91\x01"])
def test_bytes_that_are_no_record_are_refused(record: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        c.decode(record)
