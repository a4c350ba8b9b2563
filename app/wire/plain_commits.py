"""Plain commits: appends of plain entries, and acknowledgements. Most commits have only these.

They are read at once, without a model for each part. Others are not read here: the models read
them, or report what is wrong.
"""

from typing import Annotated, NamedTuple

import msgspec

from headgate.app.wire.ids import plain_ids
from headgate.app.wire.name_rule import fault_of
from headgate.app.wire.plain import NOT_PLAIN, PlainDraft, drafts_of_plain
from headgate.app.wire.schemas.commits import commit_request, consumer_of, place_of
from headgate.app.wire.structure import DENSE_BYTES_MIN
from headgate.engine.errors import Location
from headgate.engine.limits import COMMIT_ITEMS_MAX, COMMIT_STEPS_MAX, COUNT_MAX
from headgate.engine.requests.commits import CommitSteps
from headgate.engine.requests.deliveries import Ack
from headgate.engine.requests.entries import Add

_Count = Annotated[int, msgspec.Meta(ge=0, le=COUNT_MAX)]


class _Append(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    stream: str
    entries: list[PlainDraft]


class _Ack(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    stream: str
    group: str
    ids: list[str]
    deliveries: list[_Count] | None = None


class _Step(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    append: _Append | None = None
    ack: _Ack | None = None


class _Commit(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    consumer: str
    steps: list[_Step]


class PlainCommit(NamedTuple):
    """The body of a plain commit; it is used as `CommitInput` is."""

    consumer: str
    steps: list[Add | Ack]

    def to_request(
        self, consumer: bytes | None, producer: bytes = b"", key: bytes | None = None
    ) -> CommitSteps:
        consumer_of(self.consumer, consumer)
        return commit_request(self.steps, producer, key)

    def place(self, location: Location) -> Location:
        return place_of(location, ["append" if type(step) is Add else "ack" for step in self.steps])


_decode = msgspec.json.Decoder(_Commit).decode


def plain_commit(body: bytes) -> PlainCommit | None:
    """Return the commit of a body; None unless it is plain and valid."""
    if len(body) > DENSE_BYTES_MIN:
        return None
    try:
        commit = _decode(body)
    except NOT_PLAIN:
        return None
    if not 0 < len(commit.steps) <= COMMIT_STEPS_MAX or fault_of(commit.consumer) is not None:
        return None
    consumer = commit.consumer.encode()
    steps = [step for each in commit.steps if (step := _engine_step(each, consumer)) is not None]
    return PlainCommit(commit.consumer, steps) if len(steps) == len(commit.steps) else None


def _engine_step(step: _Step, consumer: bytes) -> Add | Ack | None:
    append, ack = step.append, step.ack
    if append is not None and ack is None and fault_of(append.stream) is None:
        is_few = 0 < len(append.entries) <= COMMIT_ITEMS_MAX
        drafts = drafts_of_plain(append.entries) if is_few else None
        return None if drafts is None else Add(append.stream.encode(), drafts)
    if ack is None or append is not None or fault_of(ack.stream) or fault_of(ack.group):
        return None
    ids = plain_ids(" ".join(ack.ids), len(ack.ids)) if ack.ids else None
    if ids is None:
        return None
    counts = None
    if ack.deliveries is not None:
        if len(ack.deliveries) != len(ids):
            return None
        counts = dict(zip(ids, ack.deliveries, strict=True))
    return Ack(ack.stream.encode(), ack.group.encode(), ids, consumer, counts)
