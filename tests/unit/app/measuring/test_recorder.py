"""The recorder adds the samples of a gateway's processes, and keeps observations."""

from __future__ import annotations

from math import isnan

from headgate.app.measuring.history import Step
from headgate.app.measuring.recorder import HistoryQuestion, Recorder
from headgate.app.measuring.sample import ObservedStreams, Sample
from headgate.app.measuring.series import LOOP_DELAY, REQUEST
from headgate.engine.buckets import SECONDS
from headgate.engine.replies import ObservedGroup, ObservedStream
from tests.virtual_time import ManualClock

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
