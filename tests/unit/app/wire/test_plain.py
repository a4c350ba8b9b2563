"""Plain entries are read as the models read them, or not at all."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from headgate.app.http.operation import json_of
from headgate.app.wire.plain import plain_drafts, plain_entry
from headgate.app.wire.problems import GatewayError
from headgate.app.wire.schemas.entries import Append, EntryInput
from headgate.engine.entry import Draft

_model = TypeAdapter(list[EntryInput])

VALUES = st.one_of(st.text(max_size=5), st.integers(), st.none(), st.lists(st.text(), max_size=1))
FIELDS = st.dictionaries(st.text(max_size=5), VALUES, max_size=4)
ENTRIES = st.one_of(
    st.fixed_dictionaries({"fields": st.dictionaries(st.text(max_size=5), st.text(max_size=5))}),
    st.fixed_dictionaries({"fields": FIELDS}, optional={"id": VALUES, "x": VALUES}),
    VALUES,
)


def modelled(body: bytes) -> list[Draft] | None:
    try:
        drafts = [entry.to_draft() for entry in _model.validate_python(json_of(body))]
    except (ValidationError, GatewayError, json.JSONDecodeError):
        return None
    return drafts


@given(st.lists(ENTRIES, min_size=1, max_size=4))
@example([{"fields": {"a": "\ud800"}}])
def test_what_is_read_is_what_the_models_make_of_it(entries: list[Any]) -> None:
    body = json.dumps(entries).encode()
    lines = b"\n".join(json.dumps(entry).encode() for entry in entries)
    for plain in (plain_drafts(body, is_lines=False), plain_drafts(lines, is_lines=True)):
        if plain is not None:
            assert plain == modelled(body)


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_fields_of_text_are_plain_in_an_array_and_in_lines(end: bytes) -> None:
    wanted = [Draft(None, (b"a", b"1", b"b", "é".encode())), Draft(None, (b"c", b""))]
    array = b'[{"fields":{"a":"1","b":"\\u00e9"}},{"fields":{"c":""}}]'
    lines = b'{"fields":{"a":"1","b":"\\u00e9"}}\n{"fields":{"c":""}}' + end
    assert plain_drafts(array, is_lines=False) == wanted
    assert plain_drafts(lines, is_lines=True) == wanted


@pytest.mark.parametrize(
    "line",
    [
        *(b"", b"{}", b"nothing", b'{"fields":{}}', b'{"fields":{"a":1}}'),
        *(b'{"fields":{"a":"1"},"id":"1-1"}', b'{"fields":{"a":"\xff"}}'),
        b'{"fields":{"a":"1"}} {"fields":{"a":"1"}}',
    ],
)
def test_whatever_else_is_left_to_the_models(line: bytes) -> None:
    good = b'{"fields":{"a":"1"}}'
    assert plain_drafts(b"\n".join([good, line, good]), is_lines=True) is None
    assert plain_drafts(b"[" + b",".join([good, line, good]) + b"]", is_lines=False) is None


APPENDS = st.one_of(
    ENTRIES,
    st.fixed_dictionaries(
        {"fields": FIELDS}, optional={"create_stream": VALUES, "trim": VALUES, "id": VALUES}
    ),
)


@given(APPENDS)
@example({"fields": {"a": "\ud800"}})
@example({"fields": {}})
@example({"fields": {str(number): "" for number in range(1025)}})
def test_one_entry_is_what_its_model_makes_of_it(body: Any) -> None:
    content = json.dumps(body).encode()
    plain = plain_entry(content)
    if plain is not None:
        model = Append.model_validate(json_of(content))
        assert plain.to_draft() == model.to_draft()
        assert (plain.create_stream, plain.trim) == (model.create_stream, model.trim)
