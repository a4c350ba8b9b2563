"""Entry frames: they have the form that the AsyncAPI document declares."""

import json
from collections.abc import Callable, Iterable
from itertools import accumulate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from headgate.app.live.frames import server as frames
from headgate.app.live.frames.client import FRAME_BYTES_MIN
from headgate.app.live.frames.entries import (
    FRAME_BYTES_MAX,
    FrameOf,
    deliveries_frames,
    entries_frames,
    pattern_frames,
    settled_frame,
)
from headgate.app.wire.encoding import delivery_wire, entry_wire
from headgate.app.wire.problems import FrameTooLarge
from headgate.engine.entry import MAX_ID, MIN_ID, Entry, EntryId
from headgate.engine.limits import U64_MAX
from headgate.engine.patterns import PatternCursor
from headgate.engine.replies import Delivery, Gap, Outcome, PatternRead, StreamRead

Frames = Callable[[FrameOf], Iterable[str]]
GAP = Gap(EntryId(0, 1), EntryId(0, 2))

ENTRIES: TypeAdapter[Any] = TypeAdapter(frames.Entries)
ACKED: TypeAdapter[Any] = TypeAdapter(frames.Acked)
OK: TypeAdapter[Any] = TypeAdapter(frames.Ok)

numbers = st.integers(0, U64_MAX)
ids = st.builds(EntryId, numbers, numbers)
subs = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
fields = st.sampled_from([(b"k", b"v"), (b"k", b"1", b"k", b"2"), (b"\xff", b"\xfe")])
entries = st.lists(st.builds(Entry, ids, fields), max_size=4)
deliveries = st.lists(
    st.builds(Delivery, id=ids, fields=fields, idle_ms=st.integers(0, 10**12)), max_size=4
)
counts = st.integers(0, 10**6)
settled = st.lists(st.tuples(ids, st.sampled_from(Outcome)), max_size=4)


def read_of(entries: list[Entry], gap: Gap | None = None, stream: bytes = b"s") -> StreamRead:
    after = MIN_ID if gap is None else gap.through
    return StreamRead(stream, entries, entries[-1].id if entries else after, MIN_ID, gap, MIN_ID)


def frame_of(text: str, model: TypeAdapter[Any]) -> Any:
    """Return a frame that fits its model and has no further keys."""
    frame = json.loads(text)
    assert model.validate_json(text) == frame
    return frame


@given(subs, entries, counts, st.none() | st.builds(Gap, ids, ids))
def test_entries_of_a_stream(sub: str, drawn: list[Entry], credit: int, gap: Gap | None) -> None:
    [text] = entries_frames(FrameOf(sub), read_of(drawn, gap), credit_left=credit)
    frame = frame_of(text, ENTRIES)

    missed = {} if gap is None else {"gap": {"from": str(gap.after), "to": str(gap.through)}}
    assert frame == {
        "type": "entries",
        "sub": sub,
        "entries": list(map(entry_wire, drawn)),
        "credit_left": credit,
        **missed,
    }


@given(subs, deliveries, st.lists(ids.map(str), max_size=2), counts, st.none() | counts)
def test_entries_of_a_group(
    sub: str, drawn: list[Delivery], gone: list[str], credit: int, lag: int | None
) -> None:
    [text] = deliveries_frames(FrameOf(sub), drawn, gone, credit_left=credit, lag=lag)
    frame = frame_of(text, ENTRIES)

    assert frame == {
        "type": "entries",
        "sub": sub,
        "entries": list(map(delivery_wire, drawn)),
        "credit_left": credit,
        **({"deleted_ids": gone} if gone else {}),
        **({} if lag is None else {"lag": lag}),
    }


@given(st.none() | st.just('"results":[') | subs, subs, settled)
def test_outcomes_of_ids(rid: str | None, sub: str, drawn: list[tuple[EntryId, Outcome]]) -> None:
    ids, outcomes = [entry_id for entry_id, _ in drawn], [outcome for _, outcome in drawn]
    acked: frames.Acked = {"type": "acked", "sub": sub, "results": []}
    ok: frames.Ok = {"type": "ok", "sub": sub, "results": []}
    if rid is not None:
        acked["rid"] = ok["rid"] = rid

    results = [{"id": str(entry_id), "outcome": outcome} for entry_id, outcome in drawn]
    for head, model in ((acked, ACKED), (ok, OK)):
        text = "".join(settled_frame(head, ids, outcomes))
        assert frame_of(text, model) == {**head, "results": results}


def test_the_same_ids_in_another_stream_are_other_entries() -> None:
    for value in ("1", "2", "1"):
        read = read_of([Entry(EntryId(1, 0), (b"k", value.encode()))])
        [text] = entries_frames(FrameOf("s"), read, credit_left=1)
        assert json.loads(text)["entries"][0]["fields"]["k"] == value


def large_reads(value: bytes, count: int) -> dict[str, tuple[Frames, int]]:
    """Return the makers of the frames of so many entries, one for each way of following."""
    entries = [Entry(EntryId(number, 0), (b"k", value)) for number in range(1, count + 1)]
    held = [Delivery(entry.id, entry.fields, 0, 0, None) for entry in entries]
    read = read_of(entries)._replace(next_after=EntryId(count, 1), gap=GAP)
    gone = [str(MAX_ID)] * 250
    pattern = PatternRead([read] * 2, PatternCursor(), is_at_end=True)
    many = PatternRead([read_of([], GAP, b"\x01" * 256)] * 250, PatternCursor(), is_at_end=True)
    return {
        "a stream": (lambda of: entries_frames(of, read, credit_left=5), count),
        "a pattern": (lambda of: pattern_frames(of, pattern, credit_left=5), 2 * count),
        "gaps": (lambda of: pattern_frames(of, many, credit_left=5), 0),
        "a group": (lambda of: deliveries_frames(of, held, gone, credit_left=5, lag=9), count),
    }


@pytest.mark.parametrize("bytes_max", [None, FRAME_BYTES_MIN, 10**9])
@pytest.mark.parametrize(
    ("value", "count"),
    [(b"\x01" * 20_000, 60), (b'"{}"' * 25_000, 30), (b"\xff" * 100_000, 30), (b"v", 250)],
    ids=["controls", "quotes", "binary", "small"],
)
def test_a_frame_of_several_entries_has_no_more_bytes_than_clients_take(
    value: bytes, count: int, bytes_max: int | None
) -> None:
    bound = min(bytes_max or FRAME_BYTES_MAX, FRAME_BYTES_MAX)
    for name, (frames_of, entry_count) in large_reads(value, count).items():
        try:
            texts = list(frames_of(FrameOf("s" * 64, bytes_max)))
        except FrameTooLarge:
            assert len(value) > FRAME_BYTES_MIN // 8
            continue
        made = [json.loads(text) for text in texts]
        for text, frame in zip(texts, made, strict=True):
            assert len(text.encode()) <= bound or len(frame["entries"]) == 1, name
        left = [5 + entry_count - end for end in accumulate(len(each["entries"]) for each in made)]
        assert [each["credit_left"] for each in made] == left, name
        assert left[-1] == 5
        assert [("position" in each) or ("lag" in each) for each in made].index(True) == len(
            made
        ) - 1
        assert ("gap" in made[0]) + ("gaps" in made[0]) + ("deleted_ids" in made[0]) == 1


def test_an_entry_that_a_client_does_not_take_is_named_behind_those_before_it() -> None:
    entries = [
        Entry(EntryId(n, 0), (b"k", b"v" * size)) for n, size in ((1, 9), (2, 70_000), (3, 9))
    ]
    frames = iter(entries_frames(FrameOf("s", FRAME_BYTES_MIN), read_of(entries), credit_left=0))

    assert [entry["id"] for entry in json.loads(next(frames))["entries"]] == ["1-0"]
    with pytest.raises(FrameTooLarge) as raised:
        next(frames)
    assert raised.value.entry_id == "2-0"
