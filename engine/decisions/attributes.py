"""Decisions about the attributes of streams."""

from __future__ import annotations

from headgate.engine.commands import AttributesChanged, Command
from headgate.engine.decisions import Decision, Decisions
from headgate.engine.errors import StreamsChanged
from headgate.engine.requests.streams import AttributeChange, ChangeAttributes, GetAttributes
from headgate.engine.state.keyspace import Keyspace
from headgate.engine.state.stream import Stream


def check_attributes(stream: Stream | None, change: AttributeChange | None) -> None:
    if change is None:
        return
    there = {} if stream is None else stream.attributes
    if any(there.get(name) != value for name, value in change.expected.items()):
        raise StreamsChanged


def attributes_changed(
    keyspace: Keyspace, stream: Stream, change: AttributeChange | None
) -> list[Command]:
    """Return the command for a change, if any; LimitReached if too many or too large."""
    if change is None:
        return []
    there = stream.attributes
    values = {name: value for name, value in change.values.items() if there.get(name) != value}
    if not values:
        return []
    keyspace.bounds.check_attributes(stream, values)
    return [AttributesChanged(stream.name, values)]


def get_attributes(
    keyspace: Keyspace, request: GetAttributes, now_ms: int
) -> Decision[dict[bytes, bytes]]:
    del now_ms
    there = keyspace.stream(request.stream).attributes
    names = there if request.names is None else request.names
    return Decision({name: there[name] for name in names if name in there}, [])


def change_attributes(keyspace: Keyspace, request: ChangeAttributes, now_ms: int) -> Decision[None]:
    del now_ms
    stream = keyspace.stream(request.stream)
    check_attributes(stream, request.change)
    return Decision(None, attributes_changed(keyspace, stream, request.change))


DECISIONS: Decisions = {GetAttributes: get_attributes, ChangeAttributes: change_attributes}
