"""Held: what a connection was sent and has not settled."""

from collections.abc import Iterable, Mapping, Sequence

from headgate.engine.entry import EntryId
from headgate.engine.replies import Delivery, Outcome


class Held:
    """Entries by id with their delivery counts, in the order of sending."""

    def __init__(self) -> None:
        """Start with nothing."""
        self.counts: dict[EntryId, int] = {}

    def __len__(self) -> int:
        """Return how many entries are held."""
        return len(self.counts)

    def add(self, deliveries: Iterable[Delivery]) -> None:
        """Hold what is sent now."""
        self.counts.update({delivery.id: delivery.delivery_count for delivery in deliveries})

    def up_to(self, entry_id: EntryId) -> list[EntryId]:
        """Return what is held up to an id."""
        return [held_id for held_id in self.counts if held_id <= entry_id]

    def settle(self, ids: Sequence[EntryId], outcomes: Sequence[Outcome]) -> int:
        """Hold no more what was settled or turned out to be another's; returns how much was held.

        Args:
            ids: what was to be acknowledged, given back or extended.
            outcomes: what became of each; what was extended is still held.
        """
        settled_count = 0
        for entry_id, outcome in zip(ids, outcomes, strict=True):
            if outcome is not Outcome.EXTENDED and self.counts.pop(entry_id, None) is not None:
                settled_count += 1
        return settled_count

    def take_away(self, counts: Mapping[EntryId, int]) -> list[EntryId]:
        """Hold no more what another consumer has taken over; returns which of it was held.

        Args:
            counts: delivery counts before that; what came back to us since has a greater one.
        """
        held = self.counts
        lost = [
            entry_id
            for entry_id, count in counts.items()
            if entry_id in held and held[entry_id] <= count
        ]
        for entry_id in lost:
            del held[entry_id]
        return lost

    def keep(self, ids: Iterable[EntryId]) -> None:
        """Hold nothing but these: the rest was settled elsewhere."""
        kept = set(ids)
        for entry_id in [held_id for held_id in self.counts if held_id not in kept]:
            del self.counts[entry_id]
