"""Held: the entries that a connection was sent and has not settled."""

from collections.abc import Iterable, Mapping, Sequence

from headgate.engine.entry import EntryId
from headgate.engine.replies import Delivery, Outcome


class Held:
    """Entries by id with their delivery counts, in the order of sending."""

    __slots__ = ("counts",)

    def __init__(self) -> None:
        """Start with nothing."""
        self.counts: dict[EntryId, int] = {}

    def __len__(self) -> int:
        """Return how many entries are held."""
        return len(self.counts)

    def add(self, deliveries: Iterable[Delivery]) -> None:
        """Add entries that are sent now."""
        self.counts.update({delivery.id: delivery.delivery_count for delivery in deliveries})

    def count(self, deliveries: Iterable[Delivery]) -> None:
        """Note the delivery counts of what was delivered once more, and is not sent again."""
        for delivery in deliveries:
            if delivery.id in self.counts:
                self.counts[delivery.id] = delivery.delivery_count

    def up_to(self, entry_id: EntryId) -> list[EntryId]:
        """Return the held ids up to an id."""
        return [held_id for held_id in self.counts if held_id <= entry_id]

    def settle(self, ids: Sequence[EntryId], outcomes: Sequence[Outcome]) -> int:
        """Remove entries that are settled or belong to another consumer; returns how many.

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
        """Remove entries that another consumer has taken over; returns which of them were held.

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
        """Remove all entries but these: the others were settled elsewhere."""
        kept = set(ids)
        for entry_id in [held_id for held_id in self.counts if held_id not in kept]:
            del self.counts[entry_id]
