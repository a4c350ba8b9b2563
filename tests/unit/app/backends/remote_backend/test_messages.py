"""Messages between processes arrive as they were sent."""

from __future__ import annotations

import inspect
import subprocess
import sys
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.app.backends.remote import messages
from headgate.engine import errors
from headgate.engine.config import GroupPolicy, Patch
from headgate.engine.entry import MAX_ID, Draft, EntryId, PartialId, Timing
from headgate.engine.requests import Request
from headgate.engine.requests.deliveries import GiveBack
from headgate.engine.requests.entries import Add, From, Read, StreamCursor
from headgate.engine.requests.groups import UpdateGroup
from headgate.engine.requests.keyspace import ListNames
from headgate.engine.requests.names import NameFilter

_encode = msgspec.msgpack.encode
_of_worker = msgspec.msgpack.Decoder(list[messages.OfWorker]).decode
_of_engine = msgspec.msgpack.Decoder(list[messages.OfEngine]).decode

FIRST = EntryId(1, 0)
EXAMPLES: dict[str, Any] = {
    "text": "wrong",
    "location": ("drafts", 3, "fields"),
    "what": "groups",
    "limit": 5,
    "ability": "a journal",
    "why": "it is gone",
    "name": "journal-1",
    "offset": 7,
    "record": 2,
    "stream": b"\xff",
    "group": b"g",
    "stream_exists": True,
    "entry_id": FIRST,
    "wanted": PartialId(5),
    "last_id": MAX_ID,
    "index": 3,
    "expected": FIRST,
    "key": b"k",
    "schedule": b"nightly",
    "size_bytes_max": 9,
    "field": "entries_added",
    "than": "length",
    "leader": "http://a",
}


def made(kind: type[errors.StreamError]) -> errors.StreamError:
    """Return an error with all that it can know."""
    signature = inspect.signature(kind.__init__)
    if kind.__init__ is Exception.__init__:
        return kind("something is wrong")
    positional, named = [], {}
    for name, parameter in list(signature.parameters.items())[1:]:
        if parameter.kind is parameter.KEYWORD_ONLY:
            named[name] = EXAMPLES[name]
        elif parameter.kind is not parameter.VAR_POSITIONAL:
            positional.append(EXAMPLES[name])
    return kind(*positional, **named)


@pytest.mark.parametrize("kind", messages.ERRORS.values(), ids=list(messages.ERRORS))
def test_an_error_arrives_with_all_that_it_knows(kind: type[errors.StreamError]) -> None:
    error = made(kind)
    [arrived] = _of_engine(_encode([messages.Failed(1, messages.facts_of(error))]))
    assert isinstance(arrived, messages.Failed)
    restored = messages.error_of(arrived.error)
    assert (type(restored), str(restored)) == (kind, str(error))
    known = {"location": error.location, **vars(error)}
    assert {"location": restored.location, **vars(restored)} == known
    for name, value in known.items():
        assert type(getattr(restored, name)) is type(value)


def test_every_error_of_the_engine_can_travel() -> None:
    def below(kind: type[errors.StreamError]) -> set[type[errors.StreamError]]:
        return {kind}.union(*map(below, kind.__subclasses__()))

    of_engine = {kind for kind in below(errors.StreamError) if kind.__module__ == errors.__name__}
    assert of_engine == set(messages.ERRORS.values())


def test_every_request_can_travel() -> None:
    of_engine = {
        kind for kind in Request.__subclasses__() if kind.__module__.startswith("headgate.engine")
    }
    assert of_engine == set(messages.REQUESTS)


times = st.none() | st.integers(0, 2**63 - 1)
timings = st.none() | st.builds(Timing, times, times, times, times)
ids = st.builds(EntryId, st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
wanted = st.none() | ids | st.builds(PartialId, st.integers(0, 2**64 - 1))
fields = st.lists(st.binary(max_size=4), max_size=4).map(tuple)
requests = st.one_of(
    st.builds(Add, st.binary(), st.lists(st.builds(Draft, wanted, fields, timings)), st.none()),
    st.builds(
        GiveBack,
        st.binary(),
        st.binary(),
        st.binary(),
        st.dictionaries(ids, st.integers(0, 2**63 - 1)),
    ),
    st.builds(
        UpdateGroup,
        st.binary(),
        st.binary(),
        last_id=st.none() | ids | st.just(msgspec.UNSET),
        policy=st.builds(
            Patch.of, st.just(GroupPolicy), dead_letter_stream=st.none() | st.binary()
        ),
    ),
    st.builds(
        Read,
        st.lists(st.builds(StreamCursor, st.binary(), ids | st.sampled_from(From))),
        wait_ms=st.none() | st.integers(0, 9),
    ),
    st.builds(
        ListNames,
        st.none()
        | st.builds(NameFilter, st.frozensets(st.binary()), st.lists(st.binary()).map(tuple)),
    ),
)


@given(requests)
def test_a_request_arrives_as_it_was_sent(request: Request[Any]) -> None:
    assert _of_worker(_encode([messages.Call(1, request)])) == [messages.Call(1, request)]


def test_processes_that_have_loaded_other_things_first_have_the_same_version() -> None:
    program = (
        "import headgate.engine.requests.streams\n"
        "from headgate.app.backends.remote.messages import version_of_messages\n"
        "print(version_of_messages())"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == messages.version_of_messages()
