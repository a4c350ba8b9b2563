"""XRANGE, XREVRANGE, XREAD: entries of streams."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from headgate.app.auth.grants import Verb
from headgate.app.redis_syntax.command import CommandTable, LargeReply
from headgate.app.redis_syntax.replies import NULL_ARRAY, KeyedArrays, Reply, long_range
from headgate.app.redis_syntax.words import (
    SYNTAX,
    AnyPlan,
    Bounds,
    CommandError,
    Option,
    Options,
    Plan,
    check_queues,
    integer,
    positive,
    range_end,
    range_start,
    read_options,
    strict_id,
    timeout_ms,
    where_missing,
)
from headgate.engine.entry import MAX_ID, Entry, EntryId
from headgate.engine.errors import ReplyTooLarge, StreamError
from headgate.engine.limits import READ_PARTS_MAX, XREAD_MAX
from headgate.engine.replies import OpenedRange, StreamRead
from headgate.engine.requests.entries import (
    Budget,
    From,
    OpenRanges,
    Range,
    Read,
    Span,
    StreamCursor,
)

_RANGE: Options = {b"COUNT": Option(lambda word: max(integer(word), 0))}


def xrange(words: Sequence[bytes], bounds: Bounds) -> AnyPlan:
    """XRANGE key start end [COUNT n]."""
    start = range_start(words[2])
    return _range(words, start, range_end(words[3]), bounds)


def xrevrange(words: Sequence[bytes], bounds: Bounds) -> AnyPlan:
    """XREVRANGE key end start [COUNT n]."""
    end = range_end(words[2])
    return _range(words, range_start(words[3]), end, bounds, reverse=True)


def _range(
    words: Sequence[bytes], start: EntryId, end: EntryId, bounds: Bounds, *, reverse: bool = False
) -> AnyPlan:
    bounds = bounds.of_first_page()
    given, _ = read_options(words, 4, _RANGE)
    limit: int | None = given.get(b"COUNT")
    request = Range(
        words[1],
        start,
        end,
        limit,
        bounds.size_bytes_max,
        reverse,
        whole=True,
        entries_max=bounds.entries_max,
    )

    def shape(entries: Sequence[Entry]) -> Reply:
        # Redis: COUNT 0 gives a null array, but a missing key gives an empty one.
        return NULL_ARRAY if limit == 0 else [entry_reply(entry) for entry in entries]

    def refuse(error: StreamError) -> Reply:
        if isinstance(error, ReplyTooLarge):  # a reply that is cut would be wrong
            text = f"{bounds.entries_max} entries, {READ_PARTS_MAX} names and values, or "
            text += f"{bounds.size_bytes_max} bytes"
            raise CommandError(f"ERR the reply has more than {text}: give COUNT, or a range")
        return where_missing([])(error)

    def open_(outcome: object) -> AnyPlan | None:
        if not isinstance(outcome, ReplyTooLarge):
            return None
        opening = OpenRanges([Span(words[1], start, end)], reverse, limit)
        return Plan(
            opening, lambda opened: long_range(words[1], opened[0], entry_reply), where_missing([])
        )

    return Plan(request, shape, refuse, open=open_ if bounds.are_open else None)


@dataclass(slots=True)
class ReadOptions:
    count: int | None
    total_max: int | None
    size_bytes_max: int | None
    block_ms: int | None  # None: do not block; 0: block without limit

    @property
    def has_budget(self) -> bool:
        return self.total_max is not None or self.size_bytes_max is not None

    @property
    def wait_ms(self) -> int | None:
        """Return how long to block: 0 means not at all, None without limit."""
        return 0 if self.block_ms is None else self.block_ms or None

    def budget(self, bounds: Bounds) -> Budget:
        entries_max = min(self.total_max or bounds.entries_max, bounds.entries_max)
        return Budget(entries_max, bounds.size_bytes_max, self.size_bytes_max)


READ: Options = {
    b"COUNT": Option(lambda word: max(integer(word), 0) or None),
    b"BLOCK": Option(timeout_ms),
    b"MAXCOUNT": Option(positive("ERR MAXCOUNT must be a positive integer")),
    b"MAXSIZE": Option(positive("ERR MAXSIZE must be a positive integer")),
}
"""The options of both XREAD and XREADGROUP."""


def read_options_of(
    words: Sequence[bytes], options: Options, fault: Callable[[bytes], CommandError]
) -> tuple[ReadOptions, dict[bytes, Any], int]:
    """Read the options of a read; return them, all that are given, and the place behind STREAMS.

    Raises:
        CommandError: one is wrong, or MAXCOUNT is below COUNT.
    """
    given, at = read_options(words, 1, options, fault, b"STREAMS")
    if at >= len(words):
        raise CommandError(SYNTAX)
    read = ReadOptions(*map(given.get, (b"COUNT", b"MAXCOUNT", b"MAXSIZE", b"BLOCK")))
    if read.total_max is not None and read.total_max < (read.count or 0):
        raise CommandError("ERR MAXCOUNT must be greater than or equal to COUNT")
    return read, given, at + 1


def keys_and_ids(
    words: Sequence[bytes], at: int, command: str, what: str
) -> list[tuple[bytes, bytes]]:
    remaining = words[at:]
    if not remaining:
        raise CommandError(SYNTAX)
    if len(remaining) % 2:
        text = f"Unbalanced '{command}' list of streams: for each stream key an ID"
        raise CommandError(f"ERR {text}{what} must be specified.")
    half = len(remaining) // 2
    return list(zip(remaining[:half], remaining[half:], strict=True))


def xread(words: Sequence[bytes], bounds: Bounds) -> AnyPlan:
    """XREAD [COUNT n] [MAXCOUNT n] [MAXSIZE n] [BLOCK ms] STREAMS key [key ...] id [id ...]."""
    options, _, at = read_options_of(words, READ, _xread_error)
    is_open = bounds.are_open and not options.has_budget
    bounds = bounds.of_first_page() if is_open else bounds
    bounds = bounds._replace(entries_max=min(bounds.entries_max, XREAD_MAX))
    cursors = [
        StreamCursor(key, _after(word))
        for key, word in keys_and_ids(words, at, "xread", ", '+', or '$'")
    ]
    check_queues([cursor.stream for cursor in cursors])
    request = Read(
        cursors,
        options.count,
        wait_ms=options.wait_ms,
        missing_ok=True,
        budget=options.budget(bounds),
    )
    return Plan(request, _xread_reply, open=partial(_open_reads, request) if is_open else None)


def _open_reads(request: Read, reads: Sequence[StreamRead] | StreamError) -> AnyPlan | None:
    """Return the plan of an XREAD whose reply was cut, or None if it is complete.

    After `$` there is nothing yet. A read of the last entry (`+`) keeps its bounds.
    """
    afters = [after for _, after in request.cursors]
    if isinstance(reads, StreamError) or From.LAST in afters or not _is_cut(request, reads):
        return None
    spans = [
        Span(stream, after.next() if after < MAX_ID else after)
        for stream, after in request.cursors
        if isinstance(after, EntryId)
    ]

    def shape(opened: Sequence[OpenedRange]) -> Reply:
        return KeyedArrays(
            [span.stream, long_range(span.stream, each, entry_reply)]
            for span, each in zip(spans, opened, strict=True)
            if each.entry_count
        )

    return Plan(OpenRanges(spans, limit=request.limit, missing_ok=True), shape)


def _is_cut(request: Read, reads: Sequence[StreamRead]) -> bool:
    if not any(read.entries for read in reads):
        return False
    return len(reads) < len(request.cursors) or any(
        read.next_after < read.last_id
        and (request.limit is None or len(read.entries) < request.limit)
        for read in reads
    )


def _xread_reply(reads: Sequence[StreamRead]) -> Reply:
    reply = KeyedArrays(
        [read.stream, [entry_reply(entry) for entry in read.entries]]
        for read in reads
        if read.entries
    )
    return reply or NULL_ARRAY


def _xread_error(word: bytes) -> CommandError:
    name = word.upper()
    if name in (b"GROUP", b"NOACK", b"CLAIM"):
        text = f"The {name.decode()} option is only supported by XREADGROUP."
        return CommandError(f"ERR {text} You called XREAD instead.")
    return CommandError(SYNTAX)


def _after(word: bytes) -> EntryId | From:
    if word == b"$":
        return From.NOW
    if word == b"+":
        return From.LAST
    if word == b">":
        text = "The > ID can be specified only when calling XREADGROUP using the GROUP <group>"
        raise CommandError(f"ERR {text} <consumer> option.")
    return strict_id(word)


def entry_reply(entry: Entry) -> Reply:
    """Return an entry as Redis writes it: the id, and a flat array of names and values."""
    entry_id, fields = entry
    return [b"%d-%d" % entry_id, list(fields)]


COMMANDS: CommandTable = {
    b"XRANGE": LargeReply({Verb.READ}, xrange, only_reads=True),
    b"XREVRANGE": LargeReply({Verb.READ}, xrevrange, only_reads=True),
    b"XREAD": LargeReply({Verb.READ}, xread, only_reads=True),
}
