"""Portions: the entries of a long request cross before it, some at a time.

To decode 100,000 entries takes 100 ms, and nothing else runs meanwhile. So each message has a
thousand at most, and the other side does other things in between.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from headgate.app.backends.remote.messages import Call, DraftPortion
from headgate.engine.entry import Draft
from headgate.engine.errors import Invalid
from headgate.engine.requests import Request
from headgate.engine.requests.bulk import CommitBatch
from headgate.engine.requests.entries import Add

_DRAFTS_MAX = 1_000

_MISSING = "some of the entries did not arrive"


def in_portions(number: int, request: Request[Any]) -> list[DraftPortion | Call]:
    """Return the messages that make up a call."""
    portions: list[DraftPortion | Call] = []
    if isinstance(request, Add) and len(request.drafts) > _DRAFTS_MAX:
        portions += _portions(number, request.stream, request.drafts)
        request = replace(request, drafts=())
    elif isinstance(request, CommitBatch) and _is_long(request.drafts):
        for stream, drafts in request.drafts.items():
            portions += _portions(number, stream, drafts)
        request = replace(request, drafts=dict.fromkeys(request.drafts, ()))
    return [*portions, Call(number, request, len(portions))]


def put_together(call: Call, portions: Sequence[DraftPortion]) -> Request[Any]:
    """Return the request of a call.

    Raises:
        Invalid: a portion is missing, because it could not be sent.
    """
    request: Request[Any] = call.request
    if len(portions) != call.portion_count:
        raise Invalid(_MISSING)
    if isinstance(request, Add):
        return replace(request, drafts=[draft for each in portions for draft in each.drafts])
    assert isinstance(request, CommitBatch)
    drafts: dict[bytes, list[Draft]] = {stream: [] for stream in request.drafts}
    for each in portions:
        drafts[each.stream] += each.drafts
    return replace(request, drafts=drafts)


def _is_long(drafts: Mapping[bytes, Sequence[Draft]]) -> bool:
    return sum(map(len, drafts.values())) > _DRAFTS_MAX


def _portions(number: int, stream: bytes, drafts: Sequence[Draft]) -> Iterator[DraftPortion]:
    for at in range(0, len(drafts), _DRAFTS_MAX):
        yield DraftPortion(number, stream, list(drafts[at : at + _DRAFTS_MAX]))
