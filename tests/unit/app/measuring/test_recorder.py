"""Measuring: samples of processes, histories, quantiles, and the streams that are observed."""

from __future__ import annotations

import asyncio
from math import isnan

import pytest

from headgate.app.backends.embedded import EmbeddedBackend
from headgate.app.measuring.recorder import SECONDS_KEPT, History, HistoryQuestion, Recorder, Step
from headgate.app.measuring.sampler import Observer, ObserverOptions
from headgate.app.measuring.series import LOOP_DELAY, REQUEST, ObservedStreams, Sample, quantile
from headgate.engine.buckets import SECONDS
from headgate.engine.engine import Engine
from headgate.engine.entry import MIN_ID, Draft
from headgate.engine.journal.storage import MemoryStorage
from headgate.engine.replies import ObservedGroup, ObservedStream
from headgate.engine.requests.entries import Add
from headgate.engine.requests.groups import CreateGroup, GroupStart
from headgate.engine.requests.streams import DeleteStream
from tests.virtual_time import ManualClock, VirtualClock, in_virtual_time

GATEWAY = HistoryQuestion(Step.SECOND, 0)


class Processes:
    """The samples of processes, as a test has them."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.samples: dict[int, Sample] = {}
        self.recorder = Recorder(self.gather, self.clock)

    async def gather(self) -> dict[int, Sample]:
        return dict(self.samples)

    async def a_second_later(self, **samples: Sample) -> None:
        self.samples = {int(name.removeprefix("p")): each for name, each in samples.items()}
        self.clock.now_ms += 1000
        await self.recorder.record()

    def latest(self, name: str, question: HistoryQuestion = GATEWAY) -> float:
        return self.recorder.answer(question).series[name][-1]


def requests(count: float, *, delay_s: float = 0.0, waiters: float = 0.0) -> Sample:
    times = {REQUEST: [int(count)] + [0] * len(SECONDS)}
    return Sample({"requests": count}, {"waiters": waiters}, {LOOP_DELAY: delay_s}, times)


async def test_counts_and_gauges_of_processes_are_added_and_the_longest_delay_holds() -> None:
    processes = Processes()
    await processes.a_second_later(p1=requests(100), p2=requests(50))
    await processes.a_second_later(
        p1=requests(110, delay_s=0.2, waiters=1), p2=requests(55, delay_s=0.1, waiters=2)
    )
    assert processes.latest("requests") == 15
    assert processes.latest("waiters") == 3
    assert processes.latest("loop_delay_ms") == 200
    assert 0 < processes.latest("request_ms_p50") < processes.latest("request_ms_p99") < 1
    assert isnan(processes.latest("appended"))  # nobody said anything of it


async def test_a_process_that_ends_or_begins_anew_takes_nothing_away() -> None:
    processes = Processes()
    await processes.a_second_later(p1=requests(100), p2=requests(50))
    await processes.a_second_later(p1=requests(110))
    assert processes.latest("requests") == 10
    await processes.a_second_later(p1=requests(120), p3=requests(7))
    assert processes.latest("requests") == 17


def observed(
    at_ms: int, added: int, delivered: int, *, group: bytes = b"g", valid_ms: int = 3000
) -> Sample:
    state = ObservedGroup(group, 1, 2, 0, 3, delivered, 0, 0, 0, None, 0)
    stream = ObservedStream(b"s", 5, None, None, added, [state], 0)
    return Sample({}, {}, {}, {}, ObservedStreams(at_ms, valid_ms, [stream], 0, 0))


STREAM = HistoryQuestion(Step.SECOND, 0, b"s")
GROUP = HistoryQuestion(Step.SECOND, 0, b"s", b"g")


async def test_what_is_observed_now_and_then_holds_until_it_is_observed_again() -> None:
    processes = Processes()
    began_ms = processes.clock.monotonic_ms()
    await processes.a_second_later(p1=observed(began_ms, 10, 5))
    await processes.a_second_later(p1=observed(began_ms + 2000, 14, 6))
    await processes.a_second_later(p1=requests(1))

    answer = processes.recorder.answer(STREAM)
    assert answer.is_observed
    assert answer.series["length"] == [5, 5, 5]
    assert answer.series["appended"][1:] == [2, 2]  # four in two seconds
    assert isnan(answer.series["appended"][0])
    assert isnan(answer.series["bytes"][0])  # servers do not say
    group = processes.recorder.answer(GROUP)
    assert (group.series["lag"][-1], group.series["oldest_pending_ms"][-1]) == (1, 3)
    assert group.series["delivered"][-1] == 0.5
    assert isnan(group.series["acknowledged"][-1])


async def test_what_was_observed_long_ago_is_unknown() -> None:
    processes = Processes()
    await processes.a_second_later(p1=observed(processes.clock.monotonic_ms(), 10, 5))
    for _ in range(5):
        await processes.a_second_later(p1=requests(1))
    assert isnan(processes.latest("length", STREAM))
    assert processes.recorder.observed.streams == []


async def test_what_is_not_observed_has_no_rows_and_what_is_no_more_is_forgotten() -> None:
    processes = Processes()
    await processes.a_second_later(p1=observed(processes.clock.monotonic_ms(), 10, 5))
    assert processes.recorder.answer(GROUP).is_observed
    later = observed(processes.clock.monotonic_ms(), 10, 5, group=b"other")
    await processes.a_second_later(p1=later)
    answer = processes.recorder.answer(GROUP)
    assert not answer.is_observed
    assert (answer.times_ms, answer.series["lag"]) == ([], [])


async def test_a_count_that_begins_anew_has_no_rate() -> None:
    processes = Processes()
    began_ms = processes.clock.monotonic_ms()
    await processes.a_second_later(p1=observed(began_ms, 10, 500))
    await processes.a_second_later(p1=observed(began_ms + 1000, 10, 3))
    assert isnan(processes.latest("delivered", GROUP))


MINUTE_MS = 60_000


def test_seconds_and_minutes_are_kept_and_the_oldest_go() -> None:
    history = History(["lag"])
    for second in range(1, 2 * SECONDS_KEPT + 1):
        history.add(second * 1000, {"lag": second})

    times, series = history.after(0, Step.SECOND)
    assert len(times) == SECONDS_KEPT
    assert times[0] == (SECONDS_KEPT + 1) * 1000
    assert series["lag"] == [time / 1000 for time in times]
    times, series = history.after(0, Step.MINUTE)
    assert times == [minute * MINUTE_MS for minute in range(1, 30)]  # the last one goes on
    assert series["lag"][0] == 30.5


def test_a_minute_shows_the_mean_or_what_was_worst() -> None:
    history = History(["appended", "delay"], frozenset({"delay"}))
    for second in range(1, 62):
        history.add(second * 1000, {"appended": second % 2, "delay": second, "unknown": 1})
    _, series = history.after(0, Step.MINUTE)
    assert series == {"appended": [0.5], "delay": [60]}


def test_times_ascend_though_the_clock_is_set_back() -> None:
    history = History(["lag"])
    history.add(10_250, {"lag": 1})
    history.add(2_000, {"lag": 2})
    assert history.after(0, Step.SECOND).times_ms == [10_000, 11_000]


BOUNDS = (1.0, 2.0, 4.0)


@pytest.mark.parametrize(
    ("counts", "share", "value"),
    [
        *(([0, 0, 0, 0], 0.5, None), ([10, 0, 0, 0], 0.5, 0.5), ([5, 5, 0, 0], 0.99, 1.98)),
        ([0, 0, 4, 0], 0.5, 3.0),
        ([0, 0, 0, 4], 0.5, 4.0),  # nobody knows how much more
        ([98, 0, 0, 2], 0.99, 4.0),
    ],
)
def test_a_quantile_lies_in_its_bucket(
    counts: list[int], share: float, value: float | None
) -> None:
    assert quantile(BOUNDS, counts, share) == (value if value is None else pytest.approx(value))


@in_virtual_time
async def test_streams_that_are_measured_stay_so_whatever_is_created_before_them_by_name() -> None:
    clock = VirtualClock()
    backend = EmbeddedBackend(Engine(MemoryStorage(), clock=clock))
    observer = Observer(backend, ObserverOptions(limit=4), clock)
    observer.want(is_wanted=True)
    running = asyncio.create_task(observer.run())

    async def add(*names: bytes) -> None:
        for name in names:
            await backend.perform(Add(name, [Draft(None, (b"f", b"v"))]))

    async def observed() -> tuple[list[bytes], int]:
        await asyncio.sleep(1.5)
        news = observer.take()
        assert news is not None
        return sorted(stream.name for stream in news.streams), news.streams_left_out

    await add(b"orders", b"users")
    await backend.perform(CreateGroup(b"orders", b"g", GroupStart(MIN_ID)))
    assert await observed() == ([b"orders", b"users"], 0)
    await add(b"!0", b"!1", b"!2", b"__push:0")
    assert await observed() == ([b"!0", b"orders", b"users"], 2)
    assert await observed() == ([b"!0", b"orders", b"users"], 2)
    await backend.perform(DeleteStream(b"orders"))
    assert await observed() == ([b"!0", b"!1", b"!2", b"users"], 0)
    running.cancel()
