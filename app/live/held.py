"""Held: what a connection was sent and has not settled, by id with its delivery count."""

from collections.abc import Mapping

from headgate.engine.entry import EntryId

Held = dict[EntryId, int]


def take_away(held: Held, counts: Mapping[EntryId, int]) -> list[EntryId]:
    """Forget what another consumer has taken over; returns which of it was held.

    Args:
        held: what the connection holds.
        counts: delivery counts before that; what came back to it since has a greater one.
    """
    lost = [one for one, count in counts.items() if one in held and held[one] <= count]
    for entry_id in lost:
        del held[entry_id]
    return lost
