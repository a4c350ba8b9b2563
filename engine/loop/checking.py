"""Checking: the entries of a request are checked by a schema in turns of the event loop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from headgate.engine.entry import Draft
from headgate.engine.errors import FieldFault
from headgate.engine.packing import EncodedDrafts
from headgate.engine.state.schemas import Known, Schemas, Unchecked
from headgate.engine.threads import this_turn


class Checking:
    """The entries of one request that were checked."""

    def __init__(self) -> None:
        self._known: Known = {}
        self._checked: list[Sequence[Draft]] = []  # known by their identity, so they stay
        self._schemas: Schemas | None = None

    async def check(self, unchecked: Unchecked) -> None:
        check, drafts, turn = unchecked.check, unchecked.drafts, this_turn()
        is_encoded = isinstance(drafts, EncodedDrafts)
        first: tuple[Sequence[FieldFault], int] = (), 0
        for index, draft in enumerate(drafts):
            await turn.pause()
            faults = check.faults(draft.fields)
            if not is_encoded:  # those of others are made anew each time
                self._known[check, draft.fields] = faults, index
            if faults and not first[0]:
                first = faults, index
        self._known[check, id(drafts)] = first
        self._checked.append(drafts)
        self._schemas = unchecked.schemas

    @contextmanager
    def known(self) -> Iterator[None]:
        """Let a decision know what was found."""
        if self._schemas is None:
            yield
            return
        before, self._schemas.known = self._schemas.known, self._known
        try:
            yield
        finally:
            self._schemas.known = before
