"""Messages between processes arrive as they were sent."""

from __future__ import annotations

import inspect
import subprocess
import sys
from typing import Any

import msgspec
import pytest

from headgate.app.backends.remote import messages
from headgate.engine import errors
from headgate.engine.entry import MAX_ID, EntryId, PartialId
from headgate.engine.requests import Request

_encode = msgspec.msgpack.encode
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
    "row_id": FIRST,
    "as_of": FIRST,
    "through": FIRST,
    "faults": [errors.FieldFault("count", "is required")],
    "held": [errors.EntryHolder(FIRST, b"ana", 2)],
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
