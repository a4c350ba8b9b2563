"""Schemas: the schema of a stream, by which its new entries are checked before they are recorded.

The schema is an attribute of the stream, so it is recorded, copied and renamed with the stream.
What a schema means is passed in (`Compile`); the engine knows only that it finds faults in fields.

A check belongs to the decision of the append: the schema is the one that the stream has when the
entry is recorded, and no append falls between the change of a schema and its effect. A check that
takes long cannot be a part of a decision. Then the decision raises `Unchecked`, as it raises
`Missing` for what is not in memory; the entries are checked in turns of the event loop, and the
decision is made again with what is known of them by then.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol

from headgate.engine.entry import Draft, Fields
from headgate.engine.errors import FieldFault, SchemaMismatch
from headgate.engine.limits import CHECKED_AT_ONCE_US, COMPILED_BYTES_MAX
from headgate.engine.packing import EncodedDrafts
from headgate.engine.requests.streams import SCHEMA
from headgate.engine.state.entries.packed import PackedDrafts
from headgate.engine.state.extent import Missing
from headgate.engine.state.stream import Stream

_COMPILED_BYTES = 4096
"""Of a compiled schema, besides its text."""


class EntrySchema(Protocol):
    """A compiled schema."""

    def effort_us(self, fields: Fields) -> int:
        """Return how long it takes to check an entry, at most, about."""
        ...

    def faults(self, fields: Fields) -> Sequence[FieldFault]:
        """Return the faults of an entry; not all, if there are many."""
        ...


Compile = Callable[[bytes], EntrySchema]


class Check(NamedTuple):
    schema: EntrySchema
    row_fields: frozenset[bytes] | None  # of the stream's table

    def faults(self, fields: Fields) -> Sequence[FieldFault]:
        if self.row_fields is not None and self.row_fields.issuperset(fields[::2]):
            return ()  # it removes a row, and has nothing else
        return self.schema.faults(fields)


Known = dict[tuple[Check, Fields | int], tuple[Sequence[FieldFault], int]]
"""Faults by check and fields, or by the identity of many drafts; and the index of the draft."""


class Unchecked(Missing):
    """Entries have to be checked before this is decided. Nothing was changed."""

    def __init__(self, schemas: Schemas, check: Check, drafts: Sequence[Draft]) -> None:
        super().__init__(())
        self.schemas, self.check, self.drafts = schemas, check, drafts


class Schemas:
    def __init__(self, compile_schema: Compile | None = None) -> None:
        self.known: Known = {}  # of the request that is decided now
        self._compile = compile_schema
        self._compiled: OrderedDict[bytes, EntrySchema] = OrderedDict()  # the last used come last
        self._compiled_bytes = 0
        self._is_at_once = False

    def _check_of(self, stream: Stream) -> Check | None:
        text = stream.attributes.get(SCHEMA)
        if text is None or self._compile is None:
            return None
        names = stream.config.row_fields
        return Check(self._schema(text, self._compile), names and frozenset(names))

    def _schema(self, text: bytes, compile_schema: Compile) -> EntrySchema:
        schema = self._compiled.get(text)
        if schema is None:
            schema = self._compiled[text] = compile_schema(text)
            self._compiled_bytes += len(text) + _COMPILED_BYTES
            while self._compiled_bytes > COMPILED_BYTES_MAX and len(self._compiled) > 1:
                self._compiled_bytes -= len(self._compiled.popitem(last=False)[0]) + _COMPILED_BYTES
        else:
            self._compiled.move_to_end(text)
        return schema

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Let entries be checked while all others wait, as nothing else is left."""
        self._is_at_once = True
        try:
            yield
        finally:
            self._is_at_once = False

    def prepare(self, stream: Stream | None, drafts: Sequence[Draft]) -> None:
        """Raise Unchecked if the check of entries takes long, and they are not known."""
        check = None if stream is None else self._check_of(stream)
        if check is not None and not self._is_known(check, drafts):
            self._require_quick(check, drafts)

    def check(self, stream: Stream, drafts: Sequence[Draft] | PackedDrafts) -> None:
        """Raise SchemaMismatch about the first entry with a fault, or Unchecked."""
        check = self._check_of(stream)
        if check is None:
            return
        entries = drafts.drafts if isinstance(drafts, PackedDrafts) else drafts
        known = self.known.get((check, id(entries))) if self.known else None
        if known is not None:
            _raise_any(*known)
            return
        if not self._is_at_once and not self._is_known(check, entries):
            self._require_quick(check, entries)
        for index, draft in enumerate(entries):
            found = self.known.get((check, draft.fields)) if self.known else None
            _raise_any(check.faults(draft.fields) if found is None else found[0], index)

    def _is_known(self, check: Check, drafts: Sequence[Draft]) -> bool:
        if not self.known:
            return False
        if (check, id(drafts)) in self.known:
            return True
        is_encoded = isinstance(drafts, EncodedDrafts)
        return not is_encoded and all((check, each.fields) in self.known for each in drafts)

    def _require_quick(self, check: Check, drafts: Sequence[Draft]) -> None:
        if len(drafts) > CHECKED_AT_ONCE_US:  # to look at them takes long as well
            raise Unchecked(self, check, drafts)
        left_us = CHECKED_AT_ONCE_US
        for draft in drafts:
            left_us -= check.schema.effort_us(draft.fields)
            if left_us < 0:
                raise Unchecked(self, check, drafts)


def _raise_any(faults: Sequence[FieldFault], index: int) -> None:
    if faults:
        raise SchemaMismatch(faults, index)
