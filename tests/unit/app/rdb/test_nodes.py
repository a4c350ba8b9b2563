"""Nodes: where entries of a payload are cut into chunks."""

from headgate.app.rdb.nodes import portions
from headgate.engine.entry import Entry, EntryId


def test_many_empty_names_and_values_fill_a_node_as_short_ones_do() -> None:
    wide = [Entry(EntryId(number, 0), (b"", b"") * 5_000) for number in (1, 2, 3)]
    narrow = [Entry(EntryId(number, 0), (b"", b"")) for number in (4, 5, 6)]
    assert [*portions(wide + narrow)] == [*([entry] for entry in wide), narrow]
