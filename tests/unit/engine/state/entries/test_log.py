"""The log against a plain list, for every small history."""

import tracemalloc
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from headgate.engine.entry import MAX_ID, MIN_ID, Entry, EntryId
from headgate.engine.state.chunk import Chunk
from headgate.engine.state.entries import log as log_module
from headgate.engine.state.entries.log import Cut, Log
from headgate.engine.state.entries.packed import NodeLimits
from headgate.engine.state.extent import Line, Missing, OpenedExtent, line_of
from headgate.engine.state.memory import LINE_BYTES, ExtentPlace, Memory
from tests.packed_runs import entries_in

LIMITS = NodeLimits(entries_max=3, size_bytes_max=40)

near_ids = st.builds(EntryId, st.integers(0, 30), st.integers(0, 1))
bounds = st.one_of(near_ids, st.just(MIN_ID), st.just(MAX_ID))
sizes = st.sampled_from([1, 1, 5, 30, 60])
counts = st.one_of(st.none(), st.integers(0, 6))


def entries_from(start: EntryId, value_sizes: Sequence[int]) -> list[Entry]:
    ids = [EntryId(start.ms + 1 + number // 2, number % 2) for number in range(len(value_sizes))]
    return [Entry(i, (b"f", b"x" * size)) for i, size in zip(ids, value_sizes, strict=True)]


class Shelf:
    """Extents, of which some are in memory."""

    def __init__(self) -> None:
        self.written: dict[ExtentPlace, Sequence[Chunk]] = {}
        self.opened: dict[ExtentPlace, OpenedExtent] = {}

    def put(self, chunks: Sequence[Chunk]) -> Line:
        place = ExtentPlace(1, 1 + len(self.written), 1_000)
        self.written[place] = [chunk.marked(0) for chunk in chunks]
        return line_of(chunks, place)

    def find(self, place: ExtentPlace) -> OpenedExtent | None:
        return self.opened.get(place)

    def read(self, place: ExtentPlace) -> None:
        self.opened[place] = OpenedExtent(place, self.written[place])


class Thawing:
    """A log, or a view of it, that is asked again once what was missing is in memory."""

    def __init__(self, log: Any, shelf: Shelf) -> None:
        self.log, self.shelf = log, shelf

    def __getattr__(self, name: str) -> Any:
        answer = self.asked(lambda: getattr(self.log, name))
        return partial(self.called, name) if callable(answer) else answer

    def called(self, name: str, *args: Any, **kwargs: Any) -> Any:
        return self.asked(lambda: getattr(self.log, name)(*args, **kwargs))

    def asked(self, ask: Callable[[], Any]) -> Any:
        while True:
            before, missing = self.state(), Missing(())
            try:
                return ask()
            except Missing as error:
                missing = error
            assert self.state() == before
            assert missing.needed
            for place in (*missing.needed, *missing.ahead):
                assert place not in self.shelf.opened
                self.shelf.read(place)

    def state(self) -> object:
        if not isinstance(self.log, Log):
            return None
        return list(self.log.extents.lines()), list(self.log.dump()), self.log.length


class LogMachine(RuleBasedStateMachine):
    """Every change and every question, on the log and on a list; some of the log is cold."""

    def __init__(self) -> None:
        super().__init__()
        self.shelf = Shelf()
        self.memory = Memory(extents=self.shelf)
        self.log: Any = Thawing(Log(self.memory), self.shelf)
        self.views: list[tuple[Thawing, list[Entry]]] = []
        self.naive: list[Entry] = []
        self.last_id = MIN_ID

    def _append(self, entries: list[Entry]) -> None:
        self.log.extend(entries, LIMITS)
        self.last_id = entries[-1].id if entries else self.last_id
        self.naive += entries

    @rule(value_sizes=st.lists(sizes, min_size=1, max_size=5))
    def append(self, value_sizes: list[int]) -> None:
        self._append(entries_from(self.last_id, value_sizes))

    @rule(chunk_count=st.integers(1, 3))
    def freeze(self, chunk_count: int) -> None:
        log = self.log.log
        if chunks := log.sealed[:chunk_count]:
            log.freeze(len(chunks), self.shelf.put(chunks))

    @rule()
    def forget(self) -> None:
        self.shelf.opened.clear()

    @rule(start=bounds, end=bounds, reverse=st.booleans())
    def view(self, start: EntryId, end: EntryId, reverse: bool) -> None:
        between = [entry for entry in self.naive if start <= entry.id <= end]
        view = self.log.view(start, end, reverse=reverse)
        assert view.count == len(between)
        self.views.append((Thawing(view, self.shelf), between[::-1] if reverse else between))

    @rule()
    def read_view(self) -> None:
        """A view shows what was there when it began, whatever has changed."""
        if self.views:
            view, expected = self.views.pop(0)
            pages = list[Entry]()
            while not view.is_over:
                pages += view.page()
                self.shelf.opened.clear()
            view.close()
            assert pages == expected

    @rule(entry_id=near_ids)
    def delete(self, entry_id: EntryId) -> None:
        was_there = any(entry.id == entry_id for entry in self.naive)
        self.naive = [entry for entry in self.naive if entry.id != entry_id]
        assert self.log.delete(entry_id) == was_there

    @rule(pick=st.lists(st.integers(0, 40), max_size=8))
    def delete_some(self, pick: list[int]) -> None:
        for number in pick:
            if number < len(self.naive):
                assert self.log.delete(self.naive.pop(number).id)

    @rule(through=bounds)
    def trim_through(self, through: EntryId) -> None:
        kept = [entry for entry in self.naive if entry.id > through]
        assert self.log.trim_through(through) == len(self.naive) - len(kept)
        self.naive = kept

    def _check_cut(self, cut: Cut | None, after: list[Entry], keeps: list[Entry]) -> None:
        """Assert that a cut takes exactly what is not in `keeps`."""
        if cut is None:
            assert after == keeps
            return
        assert [entry for entry in after if entry.id > cut.through] == keeps
        assert cut.length == len(after) - len(keeps)

    @rule(after=bounds, through=bounds, count=st.integers(0, 9))
    def count_and_portion(self, after: EntryId, through: EntryId, count: int) -> None:
        inside = [entry.id for entry in self.naive if after < entry.id <= through]
        assert self.log.count(after, through) == len(inside)
        taken = inside[:count]
        cut = self.log.portion(after, through, count)
        assert cut == (Cut(taken[-1], len(taken)) if taken else None)

    @rule(length_max=st.integers(0, 8), new=st.lists(sizes, max_size=4))
    def cut_to_length(self, length_max: int, new: list[int]) -> None:
        appended = entries_from(self.last_id, new)
        after = self.naive + appended
        cut = self.log.cut_to_length(length_max, appended)
        self._check_cut(cut, after, after[max(len(after) - length_max, 0) :])

    @rule(min_id=bounds, new=st.lists(sizes, max_size=4))
    def cut_below(self, min_id: EntryId, new: list[int]) -> None:
        appended = entries_from(self.last_id, new)
        after = self.naive + appended
        cut = self.log.cut_below(min_id, appended)
        self._check_cut(cut, after, [entry for entry in after if entry.id >= min_id])

    @rule(
        length_max=counts,
        min_id=near_ids,
        limit=st.one_of(st.none(), st.integers(1, 9)),
        new=st.lists(sizes, max_size=5),
    )
    def cut_chunks(
        self, length_max: int | None, min_id: EntryId, limit: int | None, new: list[int]
    ) -> None:
        """A cut announced before an append is the one the chunks show after it."""
        asked = (length_max, None if length_max is not None else min_id, limit)
        appended = entries_from(self.last_id, new)
        announced = self._cut_chunks(*asked, appended)
        self._append(appended)
        assert announced == self._cut_chunks(*asked, [])
        assert announced == self.log.asked(lambda: whole_chunks(self.log.log, *asked))

    def _cut_chunks(
        self,
        length_max: int | None,
        min_id: EntryId | None,
        limit: int | None,
        appended: list[Entry],
    ) -> Cut | None:
        cut: Cut | None = self.log.cut_chunks(
            length_max=length_max, min_id=min_id, limit=limit, appended=appended, node_limits=LIMITS
        )
        return cut

    @rule(start=bounds, end=bounds, limit=counts)
    def read(self, start: EntryId, end: EntryId, limit: int | None) -> None:
        between = [entry for entry in self.naive if start <= entry.id <= end]
        assert self.log.range(start, end, limit) == between[:limit]
        assert self.log.reverse_range(end, start, limit) == between[::-1][:limit]
        assert self.log.ids(start, end) == [entry.id for entry in between]

    @rule(start=bounds, end=bounds, limit=st.integers(1, 9), size_max=st.sampled_from([0, 99, 999]))
    def read_packed(self, start: EntryId, end: EntryId, limit: int, size_max: int) -> None:
        """Pages go on behind each other, to the end of the range."""
        between = [entry for entry in self.naive if start <= entry.id <= end]
        while start <= end:
            runs, through = self.log.packed_range(start, end, limit, size_max)
            page = entries_in(runs)
            assert page == between[: len(page)]
            assert [entry for entry in between if entry.id <= through] == page
            assert len(page) <= limit
            del between[: len(page)]
            if through in {end, MAX_ID}:
                break
            start = through.next()
        assert not between

    @rule(through=bounds)
    def last_id_through(self, through: EntryId) -> None:
        up_to = [entry.id for entry in self.naive if entry.id <= through]
        assert self.log.last_id_through(through) == (up_to[-1] if up_to else MIN_ID)

    @rule(entry_id=near_ids)
    def get(self, entry_id: EntryId) -> None:
        matching = [entry for entry in self.naive if entry.id == entry_id]
        assert self.log.get(entry_id) == (matching[0] if matching else None)
        assert self.log.has(entry_id) == bool(matching)

    @invariant()
    def edges_are_those_of_the_live_entries(self) -> None:
        edges = (self.naive[0], self.naive[-1]) if self.naive else (None, None)
        assert (self.log.first(), self.log.last()) == edges
        assert self.log.first_id == (self.naive[0].id if self.naive else MIN_ID)
        assert self.log.last_id == (self.naive[-1].id if self.naive else MIN_ID)
        assert self.log.length == len(self.naive)

    @invariant()
    def no_chunk_is_empty_or_too_full(self) -> None:
        assert all(chunk.live_count for chunk in self.log._chunks)
        assert all(chunk.count <= LIMITS.entries_max for chunk in self.log._chunks)
        assert not any(chunk.is_open for chunk in self.log._chunks[:-1])
        cold_count = sum(line.chunk_count for line in self.log.extents.lines())
        assert self.log.chunk_count - cold_count == len(self.log._firsts) == len(self.log._chunks)

    @invariant()
    def what_is_counted_is_what_is_there(self) -> None:
        lines = list(self.log.extents.lines())
        assert self.memory.cold_bytes == sum(line.size_bytes for line in lines)
        assert self.memory.index_bytes == LINE_BYTES * len(lines)
        held = sum(len(view.log._cold) for view, _ in self.views if not view.is_over)
        ended = sum(len(view.log._cold) for view, _ in self.views if view.is_over)
        assert self.memory.files[1] == len(lines) + held + ended
        assert all(line.live_count == len(self.alive(line)) for line in lines)

    def alive(self, line: Line) -> list[Entry]:
        return [entry for entry in self.naive if line.first_id <= entry.id <= line.last_id]


LogMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestLogAgainstList = LogMachine.TestCase


def whole_chunks(
    log: Log, length_max: int | None, min_id: EntryId | None, limit: int | None
) -> Cut | None:
    """Walk the chunks as Redis does: from the oldest, stop at the first that must stay."""
    removed, through = 0, None
    extents = range(len(log.extents))
    for chunk in (*(each for at in extents for each in log.extents.chunks(at)), *log._chunks):
        count = removed + chunk.live_count
        stays = log.length - count < length_max if length_max is not None else False
        stays = stays or (min_id is not None and chunk.last_id >= min_id)
        if stays or (limit is not None and count > limit):
            break
        removed, through = count, chunk.last_id
    return None if through is None else Cut(through, removed)


def numbered_log(count: int, limits: NodeLimits) -> Log:
    log = Log()
    for number in range(1, count + 1):
        log.extend([Entry(EntryId(number, 0), (b"n", b"%d" % number))], limits)
    return log


def test_zero_is_no_limit_for_a_chunk() -> None:
    assert numbered_log(500, NodeLimits(0, 0)).chunk_count == 1


def test_a_chunk_is_full_when_the_next_entry_would_reach_the_byte_limit() -> None:
    log = Log()
    for number in range(1, 5):
        log.extend([Entry(EntryId(number, 0), (b"", b"x" * 20))], NodeLimits(0, 60))
    assert [chunk.count for chunk in log._chunks] == [2, 2]


def test_many_empty_names_and_values_fill_a_chunk_as_short_ones_do() -> None:
    log = Log()
    fields = (b"", b"") * 5_000
    log.extend([Entry(EntryId(number, 0), fields) for number in (1, 2)], NodeLimits(100, 4096))
    log.extend([Entry(EntryId(3, 0), fields)], NodeLimits(100, 4096))
    assert [chunk.count for chunk in log._chunks] == [1, 1, 1]


def test_who_wants_the_ids_of_large_entries_does_not_unpack_them() -> None:
    log = Log()
    ids = [EntryId(number, 0) for number in (1, 2, 3)]
    log.extend([Entry(each, (b"f", b"v") * 60_000) for each in ids], NodeLimits(100, 4096))
    tracemalloc.start()
    try:
        assert log.has(ids[0])
        assert log.ids(MIN_ID, MAX_ID) == ids
        assert log.portion(MIN_ID, MAX_ID, 2) == log.cut_to_length(1) == Cut(ids[1], 2)
        assert log.delete(ids[0])
        assert (log.first_id, log.trim_through(ids[1])) == (ids[1], 1)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 10_000


def test_a_long_count_comes_in_parts_of_so_many_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "CUT_CHUNKS_MAX", 3)
    log = numbered_log(100, NodeLimits(5, 0))
    low, high = EntryId(7, 0), EntryId(93, 0)

    parts = [log.count_part(low, high)]
    while not parts[-1].is_whole:
        parts.append(log.count_part(parts[-1].through, high))

    assert sum(part.length for part in parts) == log.count(low, high) == 86
    assert max(part.length for part in parts) <= 20
    assert len(parts) == 6
