"""Errors: those of the engine in the words of Redis."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headgate.app.redis_syntax.errors import error_text
from headgate.engine import errors
from headgate.engine.entry import MIN_ID, EntryId, PartialId
from tests.unit.app.redis_syntax.console import Console

LAST = EntryId(7, 3)
CODES = {
    *("ERR", "BUSYGROUP", "NOGROUP", "OOM", "MISCONF", "CLUSTERDOWN", "CROSSSLOT", "WRONGTYPE"),
    "READONLY",
}

ERRORS: list[errors.StreamError] = [
    errors.LimitExceeded("blocked reads", 3),
    errors.TooManyWaiters(3),
    errors.Draining(),
    errors.Unavailable("the disk is full"),
    errors.MemoryFull(),
    errors.StreamNotFound(b"s"),
    errors.GroupNotFound(b"s", b"g"),
    errors.GroupNotFound(b"s", b"g", stream_exists=False),
    errors.EntryNotFound(b"s", LAST),
    errors.StreamExists(b"s"),
    errors.GroupExists(b"s", b"g"),
    errors.IdNotGreater(MIN_ID, last_id=LAST, index=0),
    errors.IdNotGreater(PartialId(0), last_id=LAST, index=0),
    errors.IdsExhausted(),
    errors.LastIdMismatch(expected=MIN_ID, last_id=LAST),
    errors.ClosedToAppends(b"s"),
    errors.IdempotencyMismatch(b"k"),
    errors.StreamsChanged(),
    errors.LimitReached("streams", 3),
    errors.Invalid("limit is 0 or more"),
    errors.InvalidId("x"),
    errors.EntryTooLarge(9, location=()),
    errors.TransactionTooLong(),
    errors.ReplyTooLarge(errors.ENTRY_BYTES, 100),
    errors.StreamTooLarge("bytes in one dump", 100),
    errors.NotSupported("bulk"),
    errors.NoArchive(),
    errors.SeveralSlots("batches"),
    errors.WrongType(b"s"),
    errors.WrongSideKey(b"hg:gateways", "it has another type"),
    errors.OutOfReach(b"s"),
    errors.ScheduleNotFound(b"nightly"),
    errors.ScheduleExists(b"nightly"),
    errors.ScheduleChanged(b"nightly"),
    errors.RangeClosed(),
    errors.NotLeader("http://a"),
    errors.LeaseLost("another gateway leads"),
    errors.Disconnected("refused"),
    errors.AnswerLost("closed"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda item: type(item).__name__)
def test_only_what_redis_says_begins_with_a_code(error: errors.StreamError) -> None:
    code, _, text = error_text(error).partition(" ")
    assert code in CODES
    assert text
    assert str(error).split()[0] not in CODES


def test_every_error_that_the_engine_can_answer_with_has_a_text() -> None:
    with_text = {type(item) for item in ERRORS} | {errors.CounterTooLow}
    groups = {errors.StreamError, errors.NotFound, errors.Conflict}
    files = {errors.Corrupt, *errors.Corrupt.__subclasses__()}
    assert _engines(errors.StreamError) - groups - files == with_text


def _engines(kind: type[errors.StreamError]) -> set[type[errors.StreamError]]:
    def below(item: type[errors.StreamError]) -> Iterator[type[errors.StreamError]]:
        yield item
        for each in item.__subclasses__():
            yield from below(each)

    return {item for item in below(kind) if item.__module__ == errors.__name__}


async def test_errors_are_counted_by_the_code_that_is_sent() -> None:
    console = Console()
    console.engine.drain()
    refused = await console.say("XREAD BLOCK 0 STREAMS s 0")
    assert refused == "ERR the gateway is about to stop"
    assert "errorstat_ERR:count=1" in await console.say("INFO errorstats")
