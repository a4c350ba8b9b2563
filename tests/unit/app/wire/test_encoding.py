"""Encoding: frames and events made quickly are those that their models describe."""

import asyncio
import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from headgate.app.http import json_arrays
from headgate.app.live import frames
from headgate.app.runtime import turns
from headgate.app.wire import encoding
from headgate.app.wire.events import delivery_events, entry_events
from headgate.app.wire.fields import wire_fields
from headgate.app.wire.schemas.deliveries import Delivery as DeliveryModel
from headgate.app.wire.schemas.deliveries import Settled
from headgate.app.wire.schemas.entries import Entry as EntryModel
from headgate.app.wire.schemas.reads import Gap as GapModel
from headgate.engine.entry import MIN_ID, Entry, EntryId
from headgate.engine.limits import COUNT_MAX, U64_MAX
from headgate.engine.replies import Delivery, Gap, Outcome, StreamRead

numbers = st.integers(0, U64_MAX)
ids = st.builds(EntryId, numbers, numbers)
parts = st.one_of(st.binary(max_size=4), st.text(max_size=4).map(str.encode), st.just(b"k"))
fields = st.lists(st.tuples(parts, parts), min_size=1, max_size=4).map(
    lambda pairs: tuple(part for pair in pairs for part in pair)
)
entries = st.lists(st.builds(Entry, ids, fields), max_size=4)
names = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
deliveries = st.lists(
    st.builds(
        Delivery,
        id=ids,
        fields=fields,
        idle_ms=st.integers(0, 10**12),
        delivered_before=st.sampled_from([0, 1, U64_MAX]),
        claimed_from=st.none() | names.map(str.encode),
        count_set=st.none() | st.integers(0, 5),
    ),
    max_size=4,
)
counts = st.integers(0, 10**6)
settled = st.lists(st.tuples(ids, st.sampled_from(Outcome)), max_size=4)


def read_of(entries: list[Entry], gap: Gap | None = None, stream: bytes = b"s") -> StreamRead:
    return StreamRead(stream, entries, MIN_ID, MIN_ID, gap, MIN_ID)


def assert_says(text: str, model: BaseModel) -> None:
    """Check a frame against what the model of its type says, and against the model's schema."""
    assert json.loads(text) == json.loads(model.model_dump_json(exclude_none=True, by_alias=True))
    assert type(model).model_validate_json(text).model_dump(exclude_none=True) == model.model_dump(
        exclude_none=True
    )


def test_others_come_between_while_much_is_encoded() -> None:
    between = 0

    async def count() -> None:
        nonlocal between
        while True:
            between += 1
            await asyncio.sleep(0)

    async def encode() -> bytes:
        counting = asyncio.create_task(count())
        entries = [Entry(EntryId(number, 0), (b"k", b"v")) for number in range(50_000)]
        text = await json_arrays.array_in_turns(entries, encoding.entry_wire)
        counting.cancel()
        return bytes(text)

    entry = {"id": "49999-0", "fields": {"k": "v"}}

    assert json.loads(asyncio.run(encode()))[-1] == entry
    assert between > 1


async def test_others_come_between_large_items(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "TURN_S", 0.0)
    encoding_it = asyncio.ensure_future(json_arrays.array_in_turns(range(50), str))
    others = 0
    while not encoding_it.done():
        await asyncio.sleep(0)
        others += 1
    assert others >= 50
    assert json.loads(bytes(encoding_it.result())) == list(map(str, range(50)))


@given(entries)
def test_an_array_made_in_turns(drawn: list[Entry]) -> None:
    text = asyncio.run(json_arrays.array_in_turns(drawn, encoding.entry_wire))

    assert json.loads(bytes(text)) == [encoding.entry_wire(entry) for entry in drawn]


@given(names, entries, counts, st.none() | st.builds(Gap, ids, ids))
def test_entries_of_a_stream(sub: str, drawn: list[Entry], credit: int, gap: Gap | None) -> None:
    model = frames.Entries(
        sub=sub,
        entries=[entry_model(entry) for entry in drawn],
        credit_left=credit,
        gap=GapModel.of(gap),
    )

    assert_says(encoding.entries_frame(sub, read_of(drawn, gap), credit_left=credit), model)


@given(names, deliveries, st.lists(ids.map(str), max_size=2), counts, st.none() | counts)
def test_entries_of_a_group(
    sub: str, drawn: list[Delivery], gone: list[str], credit: int, lag: int | None
) -> None:
    model = frames.Entries(
        sub=sub,
        entries=[delivery_model(delivery) for delivery in drawn],
        deleted_ids=gone or None,
        credit_left=credit,
        lag=lag,
    )

    text = encoding.deliveries_frame(sub, drawn, gone, credit_left=credit, lag=lag)

    assert_says(text, model)


def entry_model(entry: Entry) -> EntryModel:
    return EntryModel.model_validate(encoding.entry_wire(entry))


def delivery_model(delivery: Delivery) -> DeliveryModel:
    return DeliveryModel.model_validate(encoding.delivery_wire(delivery))


@given(entries)
def test_an_entry_is_what_its_model_says(drawn: list[Entry]) -> None:
    for entry in drawn:
        wire = encoding.entry_wire(entry)
        assert wire == {"id": str(entry.id), **wire_fields(entry.fields)}
        assert wire == entry_model(entry).model_dump(exclude_unset=True)


@given(deliveries)
def test_a_delivery_is_what_its_model_says(drawn: list[Delivery]) -> None:
    for delivery in drawn:
        wire = encoding.delivery_wire(delivery)
        assert wire["id"] == str(delivery.id)
        assert wire.items() >= wire_fields(delivery.fields or ()).items()
        assert wire["deliveries"] == min(delivery.delivery_count, COUNT_MAX)
        assert wire["idle_ms"] == delivery.idle_ms
        assert wire == delivery_model(delivery).model_dump(exclude_unset=True)


def assert_events(sent: bytes, models: Sequence[EntryModel]) -> None:
    """Check events against the models of their entries: the id line, and the data."""
    events = [event.split("\n") for event in sent.decode().split("\n\n")[:-1]]
    for lines, model in zip(events, models, strict=True):
        fields = dict(line.split(": ", 1) for line in lines)
        assert (fields["event"], fields["id"]) == ("entry", model.id)
        assert_says(fields["data"], model)


@given(entries)
def test_events_of_a_stream(drawn: list[Entry]) -> None:
    assert_events(entry_events(read_of(drawn)), [entry_model(entry) for entry in drawn])


@given(deliveries)
def test_events_of_a_group(drawn: list[Delivery]) -> None:
    models = [delivery_model(delivery) for delivery in drawn]

    assert_events(delivery_events(drawn), models)


@given(st.none() | names, names, settled)
def test_what_became_of_ids(
    rid: str | None, sub: str, drawn: list[tuple[EntryId, Outcome]]
) -> None:
    results = [Settled(id=str(entry_id), outcome=outcome) for entry_id, outcome in drawn]
    pairs = [entry_id for entry_id, _ in drawn], [outcome for _, outcome in drawn]

    acked = encoding.settled_frame("acked", rid, sub, *pairs)
    assert_says("".join(acked), frames.Acked(rid=rid, sub=sub, results=results))
    ok = encoding.settled_frame("ok", rid, sub, *pairs)
    assert_says("".join(ok), frames.Ok(rid=rid, sub=sub, results=results))


def test_streams_that_are_followed_in_turn_are_encoded_once_each() -> None:
    encoded: list[list[Entry]] = []

    def encode(entries: list[Entry]) -> bytes:
        encoded.append(entries)
        return b"%d" % len(encoded)

    batches = encoding.LastBatches(encode)
    drawn = [Entry(EntryId(1, 0), (b"k", b"v"))]

    texts = [batches.encoded(read_of(drawn, stream=name)) for name in [b"a", b"b"] * 3]

    assert texts == [b"1", b"2"] * 3


def test_the_same_ids_in_another_stream_are_other_entries() -> None:
    first, second = ([Entry(EntryId(1, 0), (b"k", value))] for value in (b"1", b"2"))

    texts = [
        encoding.entries_frame("s", read_of(entries), credit_left=1)
        for entries in (first, second, first)
    ]

    values = [json.loads(text)["entries"][0]["fields"]["k"] for text in texts]
    assert values == ["1", "2", "1"]
