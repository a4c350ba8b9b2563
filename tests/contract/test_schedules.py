"""Schedules: how they are kept, and that a due time is run once."""

import pytest

from headgate.app.backends.port import Backend
from headgate.engine.entry import Draft, EntryId
from headgate.engine.errors import Invalid, ScheduleChanged, ScheduleExists, ScheduleNotFound
from headgate.engine.replies import DueSchedules
from headgate.engine.requests import schedules
from headgate.engine.requests.entries import Add, Range
from headgate.engine.requests.keyspace import NameFilter, RenameStream
from headgate.engine.requests.streams import CreateStream, DeleteStream, ListStreams
from headgate.engine.schedules import Definition, Missed, Progress, Refusal, ScheduleInfo
from tests.contract.calls import S

NIGHTLY = Definition(S, (b"kind", b"report", b"raw", b"\xff\x00"), "0 2 * * *", "Europe/Berlin")
FAR_MS = 4_000_000_000_000
ME = b"me"


async def made(
    backend: Backend,
    name: bytes = b"nightly",
    due_ms: int | None = 1_000,
    definition: Definition = NIGHTLY,
) -> ScheduleInfo:
    return (await backend.perform(schedules.SetSchedule(name, definition, due_ms, 0))).info


def run_of(info: ScheduleInfo, next_due_ms: int = FAR_MS) -> schedules.RunSchedule:
    due_ms = info.progress.next_due_ms
    assert due_ms is not None
    return schedules.RunSchedule(
        info.name, info.definition.stream, info.revision, due_ms, due_ms, next_due_ms
    )


async def due(backend: Backend, limit: int = 10, runner: bytes = ME) -> DueSchedules:
    return await backend.perform(schedules.AwaitSchedules(runner, limit))


async def entries(backend: Backend) -> list[tuple[bytes, ...]]:
    if not await backend.perform(ListStreams()):
        return []
    return [entry.fields for entry in await backend.perform(Range(S))]


async def test_a_schedule_is_kept_as_it_was_set(backend: Backend) -> None:
    created = await backend.perform(schedules.SetSchedule(b"nightly", NIGHTLY, FAR_MS, 0))
    assert created.is_new
    info = await backend.perform(schedules.GetSchedule(b"nightly"))
    assert info == created.info
    assert info[2:] == (1, NIGHTLY, Progress(FAR_MS))
    weekly = Definition(b"other", (b"a", b"1"), "0 2 * * 1", "UTC", Missed.SKIP, is_paused=True)
    created = await backend.perform(schedules.SetSchedule(b"nightly", weekly, None, 1))
    assert not created.is_new
    info = await backend.perform(schedules.GetSchedule(b"nightly"))
    assert info == created.info
    assert info[1:] == (info.epoch, 2, weekly, Progress(None))


async def test_a_schedule_that_was_changed_meanwhile_is_not_set(backend: Backend) -> None:
    with pytest.raises(ScheduleChanged):
        await backend.perform(schedules.SetSchedule(b"nightly", NIGHTLY, FAR_MS, 1))
    await made(backend)
    for revision in (0, 2):
        with pytest.raises(ScheduleChanged):
            await backend.perform(schedules.SetSchedule(b"nightly", NIGHTLY, FAR_MS, revision))


async def test_a_schedule_has_fields_within_bounds(backend: Backend) -> None:
    for fields in ((), (b"a",), (b"a", bytes(65_537)), (b"", b"") * 1_001, (b"_due_ms", b"1")):
        definition = Definition(S, fields, "* * * * *", "UTC")
        with pytest.raises(Invalid) as refused:
            await made(backend, definition=definition)
        assert refused.value.location == ("fields",)
    assert await backend.perform(schedules.ListSchedules()) == []


async def test_schedules_are_listed_by_name_in_pages(backend: Backend) -> None:
    names = [b"%03d" % number for number in range(250)]
    for name in reversed(names):
        await made(backend, name)
    listed = await backend.perform(schedules.ListSchedules(limit=200))
    assert [info.name for info in listed] == names[:200]
    listed = await backend.perform(schedules.ListSchedules(after=names[199], limit=100))
    assert [info.name for info in listed] == names[200:]


async def test_a_schedule_is_shown_only_to_those_who_see_its_stream(backend: Backend) -> None:
    other = Definition(b"other.a", (b"a", b"1"), "* * * * *", "UTC")
    await made(backend, b"1")
    await made(backend, b"2", definition=other)
    only = NameFilter(prefixes=(b"other.",))
    listed = await backend.perform(schedules.ListSchedules(only=only))
    assert [info.name for info in listed] == [b"2"]
    assert (await backend.perform(schedules.GetSchedule(b"2", only))).name == b"2"
    with pytest.raises(ScheduleNotFound):
        await backend.perform(schedules.GetSchedule(b"1", only))
    with pytest.raises(ScheduleExists):
        await backend.perform(schedules.SetSchedule(b"1", other, FAR_MS, 1, only))
    assert not await backend.perform(schedules.DeleteSchedule(b"1", only))
    assert await backend.perform(schedules.DeleteSchedule(b"2", only))
    assert [info.name for info in await backend.perform(schedules.ListSchedules())] == [b"1"]


async def test_a_schedule_that_is_deleted_is_gone(backend: Backend) -> None:
    info = await made(backend)
    assert await backend.perform(schedules.DeleteSchedule(b"nightly"))
    assert not await backend.perform(schedules.DeleteSchedule(b"nightly"))
    with pytest.raises(ScheduleNotFound):
        await backend.perform(schedules.GetSchedule(b"nightly"))
    assert await backend.perform(run_of(info)) is None
    assert (await due(backend))[1:] == ([], None, 0)


async def test_what_is_due_is_told_in_order_of_time(backend: Backend) -> None:
    await made(backend, b"b", 2_000)
    await made(backend, b"a", 3_000)
    await made(backend, b"c", 1_000)
    await made(backend, b"later", FAR_MS)
    await made(backend, b"paused", None)
    reply = await due(backend)
    assert [info.name for info in reply.schedules] == [b"c", b"b", b"a"]
    assert (reply.next_ms, reply.schedule_count) == (FAR_MS, 5)
    assert 1_600_000_000_000 < reply.now_ms < FAR_MS
    reply = await due(backend, limit=2)
    assert ([info.name for info in reply.schedules], reply.next_ms) == ([b"c", b"b"], 3_000)


async def test_a_wait_ends_when_nothing_is_due(backend: Backend) -> None:
    reply = await backend.perform(schedules.AwaitSchedules(ME, 10, wait_ms=10))
    assert reply[1:] == ([], None, 0)


async def test_a_run_appends_an_entry_that_says_why(backend: Backend) -> None:
    info = await made(backend, due_ms=1_000)
    entry_id = await backend.perform(run_of(info, next_due_ms=2_000))
    assert isinstance(entry_id, EntryId)
    [entry] = await backend.perform(Range(S))
    assert entry.id == entry_id
    assert entry.fields == (*NIGHTLY.fields, b"_schedule", b"nightly", b"_due_ms", b"1000")
    info = await backend.perform(schedules.GetSchedule(b"nightly"))
    assert info.progress == Progress(2_000, last_due_ms=1_000, last_id=entry_id)


async def test_a_due_time_is_run_once(backend: Backend) -> None:
    info = await made(backend)
    run = run_of(info, next_due_ms=2_000)
    assert await backend.perform(run) is not None
    assert await backend.perform(run) is None
    assert len(await entries(backend)) == 1
    info = await backend.perform(schedules.GetSchedule(b"nightly"))
    assert await backend.perform(run_of(info)) is not None
    assert len(await entries(backend)) == 2


async def test_a_run_of_what_was_set_anew_appends_nothing(backend: Backend) -> None:
    run = run_of(await made(backend))
    await backend.perform(schedules.SetSchedule(b"nightly", NIGHTLY, 1_000, 1))
    assert await backend.perform(run) is None
    assert await entries(backend) == []


async def test_the_stream_of_a_schedule_need_not_exist(backend: Backend) -> None:
    info = await made(backend)
    await backend.perform(CreateStream(S))
    await backend.perform(run_of(info, next_due_ms=2_000))
    await backend.perform(DeleteStream(S))
    info = await backend.perform(schedules.GetSchedule(b"nightly"))
    await backend.perform(run_of(info))
    assert [fields[-1] for fields in await entries(backend)] == [b"2000"]


async def test_a_schedule_goes_on_under_the_name_of_its_stream(backend: Backend) -> None:
    info = await made(backend)
    await backend.perform(run_of(info, next_due_ms=2_000))
    to = b"{orders}2"
    definition = Definition(to, (b"a", b"1"), "* * * * *", "UTC")
    await backend.perform(Add(to, [Draft(None, (b"a", b"0"))]))
    await backend.perform(schedules.SetSchedule(b"nightly", definition, 2_000, 1))
    info = await backend.perform(schedules.GetSchedule(b"nightly"))
    await backend.perform(run_of(info, next_due_ms=3_000))
    assert len(await backend.perform(Range(to))) == 2
    await backend.perform(RenameStream(to, b"{orders}3"))
    info = await backend.perform(schedules.GetSchedule(b"nightly"))
    await backend.perform(run_of(info))
    assert len(await backend.perform(Range(to))) == 1


async def test_a_due_time_that_passes_leaves_no_entry(backend: Backend) -> None:
    info = await made(backend)
    passing = schedules.PassSchedule(b"nightly", 1, 1_000, 9_000, missed_count=3)
    assert await backend.perform(passing)
    assert not await backend.perform(passing)
    assert await backend.perform(run_of(info)) is None
    info = await backend.perform(schedules.GetSchedule(b"nightly"))
    assert info.progress == Progress(9_000, missed_count=3)
    assert await entries(backend) == []


async def test_what_was_refused_is_tried_later(backend: Backend) -> None:
    await made(backend, due_ms=1_000)
    refusal = Refusal("memory_full", "there is no room", 1_500)
    assert await backend.perform(
        schedules.PassSchedule(b"nightly", 1, 1_000, 1_000, retry_at_ms=FAR_MS, refusal=refusal)
    )
    reply = await due(backend)
    assert (reply.schedules, reply.next_ms) == ([], FAR_MS)
    info = await backend.perform(schedules.GetSchedule(b"nightly"))
    assert (info.progress.refused_count, info.progress.refusal) == (1, refusal)
    entry_id = await backend.perform(run_of(info, next_due_ms=2_000))
    info = await backend.perform(schedules.GetSchedule(b"nightly"))
    assert info.progress == Progress(2_000, last_due_ms=1_000, last_id=entry_id, refused_count=1)
