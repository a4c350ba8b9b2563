"""Entry frames: they have the form that the AsyncAPI document declares."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from headgate.app.live.frames import server as frames
from headgate.app.live.frames.entries import deliveries_frame, entries_frame, settled_frame
from headgate.app.wire.encoding import delivery_wire, entry_wire
from headgate.engine.entry import MIN_ID, Entry, EntryId
from headgate.engine.limits import U64_MAX
from headgate.engine.replies import Delivery, Gap, Outcome, StreamRead

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
    frame = frame_of(entries_frame(sub, read_of(drawn, gap), credit_left=credit), ENTRIES)

    missed = {} if gap is None else {"gap": {"from": str(gap.after), "to": str(gap.through)}}
    assert frame == {
        "type": "entries",
        "sub": sub,
        "entries": list(map(entry_wire, drawn)),
        "credit_left": credit,
        **missed,
    }


@given(entries, ids)
def test_entries_behind_which_a_filter_let_nothing_through(
    drawn: list[Entry], position: EntryId
) -> None:
    read = read_of(drawn)._replace(next_after=position)
    frame = frame_of(entries_frame("s", read, credit_left=0), ENTRIES)

    is_news = position != (drawn[-1].id if drawn else MIN_ID)
    assert frame.get("position") == (str(position) if is_news else None)


@given(subs, deliveries, st.lists(ids.map(str), max_size=2), counts, st.none() | counts)
def test_entries_of_a_group(
    sub: str, drawn: list[Delivery], gone: list[str], credit: int, lag: int | None
) -> None:
    frame = frame_of(deliveries_frame(sub, drawn, gone, credit_left=credit, lag=lag), ENTRIES)

    assert frame == {
        "type": "entries",
        "sub": sub,
        "entries": list(map(delivery_wire, drawn)),
        "credit_left": credit,
        **({"deleted_ids": gone} if gone else {}),
        **({} if lag is None else {"lag": lag}),
    }


@given(st.none() | st.just('"results":[') | subs, subs, settled)
def test_what_became_of_ids(
    rid: str | None, sub: str, drawn: list[tuple[EntryId, Outcome]]
) -> None:
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
    first, second = ([Entry(EntryId(1, 0), (b"k", value))] for value in (b"1", b"2"))

    texts = [
        entries_frame("s", read_of(entries), credit_left=1) for entries in (first, second, first)
    ]

    values = [json.loads(text)["entries"][0]["fields"]["k"] for text in texts]
    assert values == ["1", "2", "1"]
