"""A fair group as its page in the guide describes it, and no faster than it is simple."""

from __future__ import annotations

from typing import NamedTuple

Key = str | None


class Rules(NamedTuple):
    """The rules of a group."""

    weights: dict[str, int]
    bound: int | None  # entries of a key that are pending at once
    has_priorities: bool


class FairGroup:
    """Entries are numbers. Lists everywhere: what a step costs does not matter here."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.lanes: dict[int, list[Key]] = {}  # keys in rotation, by priority
        self.ahead: dict[tuple[int, Key], list[int]] = {}
        self.places: dict[int, tuple[int, Key]] = {}
        self.pending: dict[int, str | None] = {}
        self.released: list[int] = []
        self.gone: set[int] = set()
        self.taken: dict[Key, set[int]] = {}
        self._served: dict[int, int] = {}
        self._has_claimed = False

    def append(self, number: int, key: Key, priority: int) -> None:
        """Add an entry."""
        place = priority if self.rules.has_priorities else 0, key
        self.places[number] = place
        is_new = not self.ahead.get(place)
        self.ahead.setdefault(place, []).append(number)
        if is_new and self._has_room(key):
            self.lanes.setdefault(place[0], []).append(key)

    def read(self, consumer: str, limit: int) -> list[int]:
        """Return what is given back, as far as it may come, and then what is new."""
        room = limit
        if any(self.lanes.values()):
            room = (limit + 1) // 2 if limit > 1 else int(not self._has_claimed)
        claimable = [number for number in self.released if number not in self.gone]
        claimed = claimable[:room]
        for number in claimed:
            self.released.remove(number)
        new: list[int] = []
        while len(claimed) + len(new) < limit and (following := self._next()) is not None:
            new.append(following)
        for number in (*claimed, *new):
            self.pending[number] = consumer
        if claimed or new:
            self._has_claimed = bool(claimed)
        return claimed + new

    def read_by_id(self, consumer: str, limit: int) -> list[int]:
        """Return what is new in order of ids, as Redis does."""
        numbers = sorted(number for numbers in self.ahead.values() for number in numbers)[:limit]
        for number in numbers:
            self._leave(number)
            self.pending[number] = consumer
        if numbers:
            self._has_claimed = False
        return numbers

    def settle(self, number: int) -> None:
        """Acknowledge an entry, or end its turn as it is gone."""
        if number in self.pending:
            del self.pending[number]
        if number in self.released:
            self.released.remove(number)
        self._end_turn(number)

    def give_back(self, number: int) -> None:
        self.pending[number] = None
        self.released.append(number)

    def delete(self, number: int) -> None:
        """Delete an entry; if it is pending, it stays so, and has no turn."""
        self.gone.add(number)
        if number in self.places and number in self.ahead.get(self.places[number], ()):
            self._leave(number)
        self._end_turn(number)

    @property
    def lag(self) -> int:
        return sum(map(len, self.ahead.values()))

    def deliverable(self) -> set[Key]:
        return {key for keys in self.lanes.values() for key in keys}

    def _has_room(self, key: Key) -> bool:
        bound = self.rules.bound
        return bound is None or key is None or len(self.taken.get(key, ())) < bound

    def _next(self) -> int | None:
        for priority in sorted(self.lanes, reverse=True):
            order = self.lanes[priority]
            if not order:
                continue
            key = order[0]
            number = self.ahead[priority, key].pop(0)
            if key is not None:
                self.taken.setdefault(key, set()).add(number)
            self._note_turn(priority, key)
            return number
        return None

    def _note_turn(self, priority: int, key: Key) -> None:
        for each, order in self.lanes.items():
            if key in order and not (self.ahead.get((each, key)) and self._has_room(key)):
                self._served[each] = self._served.get(each, 0) if order[0] != key else 0
                order.remove(key)
        order = self.lanes[priority]
        if order and order[0] == key:
            self._served[priority] = self._served.get(priority, 0) + 1
            if self._served[priority] >= self.rules.weights.get(key or "", 1):
                self._served[priority] = 0
                order.append(order.pop(0))

    def _leave(self, number: int) -> None:
        priority, key = self.places[number]
        self.ahead[priority, key].remove(number)
        order = self.lanes.get(priority, [])
        if not self.ahead[priority, key] and key in order:
            if order[0] == key:
                self._served[priority] = 0
            order.remove(key)

    def _end_turn(self, number: int) -> None:
        key = self.places[number][1]
        if number not in self.taken.get(key, ()):
            return
        self.taken[key].discard(number)
        for (priority, each), numbers in self.ahead.items():
            if each == key and numbers and key not in self.lanes.setdefault(priority, []):
                self.lanes[priority].append(key)
