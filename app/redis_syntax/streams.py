"""XADD, XTRIM, XLEN, XRANGE, XREVRANGE, XDEL, XDELEX, XREAD, XSETID, XCFGSET, XIDMPRECORD."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import NamedTuple

from headgate.app.auth.grants import Verb
from headgate.app.redis_syntax.command import CommandTable, LargeReply, SmallReply
from headgate.app.redis_syntax.long_array import long_range
from headgate.app.redis_syntax.replies import NULL_ARRAY, KeyedArrays, Reply
from headgate.app.redis_syntax.words import (
    SYNTAX,
    AnyPlan,
    Bounds,
    CommandError,
    Plan,
    check_idempotency_ids,
    check_names,
    check_queues,
    done,
    failing,
    integer,
    range_end,
    range_start,
    strict_id,
    strict_ids,
    where_missing,
    wrong_arity,
)
from headgate.engine.config import Patch, StreamConfig
from headgate.engine.entry import (
    MAX_ID,
    MIN_ID,
    Draft,
    Entry,
    EntryId,
    IdRequest,
    PartialId,
    make_draft,
)
from headgate.engine.errors import (
    EntryNotFound,
    IdempotencyMismatch,
    IdNotGreater,
    InvalidId,
    ReplyTooLarge,
    StreamError,
    StreamNotFound,
)
from headgate.engine.limits import (
    COMMAND_NAME_BYTES_MAX,
    IDEMPOTENCY_KEYS_MAX,
    IDEMPOTENCY_WINDOW_MS_MAX,
    READ_PARTS_MAX,
    U64_MAX,
    XREAD_MAX,
)
from headgate.engine.replies import Added, Deletion, OpenedRange, StreamRead
from headgate.engine.requests.entries import (
    Add,
    Budget,
    Delete,
    From,
    Range,
    Read,
    References,
    StreamCursor,
    Trim,
    TrimTo,
)
from headgate.engine.requests.idempotency import Idempotent, hash_fields
from headgate.engine.requests.keyspace import RememberKey, SetCounters
from headgate.engine.requests.ranges import OpenRanges, Span
from headgate.engine.requests.streams import DescribeStream, UpdateStream

REFERENCES = {
    b"KEEPREF": References.KEEP,
    b"DELREF": References.DELETE,
    b"ACKED": References.ACKED,
}
_DELETION = {Deletion.DELETED: 1, Deletion.NOT_FOUND: -1, Deletion.REFERENCED: 2}
_LIMIT = "LIMIT cannot be used without"
_XADD = frozenset({b"XADD", b"xadd"})
_NO_COUNT = "ERR Number of IDs must be a positive integer"


@dataclass
class _Options:
    """The options between the key and the id of XADD, or after the key of XTRIM."""

    max_length: int | None = None
    min_id: EntryId | None = None
    is_approximate: bool = False
    limit: int | None = None
    references: References | None = None
    creates: bool = True
    producer: bytes | None = None
    key: bytes | None = None  # None with a producer: IDMPAUTO

    @property
    def has_trim(self) -> bool:
        return self.max_length is not None or self.min_id is not None

    def idempotent(self, fields: tuple[bytes, ...]) -> Idempotent | None:
        """Return the idempotency key of the append, or None if the command has none.

        Raises:
            CommandError: the key or its producer is too long.
        """
        if self.producer is None:
            return None
        key = Idempotent(self.producer, self.key or hash_fields(fields))
        check_idempotency_ids(key.producer, key.key)
        return key

    def trim(self) -> TrimTo | None:
        """Return the trim that the command asks for, or None.

        Raises:
            CommandError: LIMIT is given without a trim, or the trim is not approximate.
        """
        if self.limit and not self.has_trim:
            raise CommandError(f"{SYNTAX}, {_LIMIT} specifying a trimming strategy")
        if self.limit is not None and not self.is_approximate:
            raise CommandError(f"{SYNTAX}, {_LIMIT} the special ~ option")
        if not self.has_trim:
            return None
        return TrimTo(
            self.max_length,
            self.min_id,
            self.is_approximate,
            self.limit,
            self.references or References.KEEP,
        )


def _trim_option(options: _Options, words: Sequence[bytes], at: int) -> int | None:
    """Read a trimming option at `at`; return the place after it, or None if there is none."""
    name, left = words[at].upper(), len(words) - at - 1
    if name in (b"MAXLEN", b"MINID") and left:
        if options.has_trim:
            text = "MAXLEN and MINID options at the same time are not compatible"
            raise CommandError(f"{SYNTAX}, {text}")
        options.is_approximate = left >= 2 and words[at + 1] == b"~"
        value_at = at + 2 if left >= 2 and words[at + 1] in (b"~", b"=") else at + 1
        if name == b"MINID":
            options.min_id = strict_id(words[value_at])
        else:
            options.max_length = integer(words[value_at])
            if options.max_length < 0:
                raise CommandError("ERR The MAXLEN argument must be >= 0.")
        return value_at + 1
    if name == b"LIMIT" and left:
        options.limit = integer(words[at + 1])
        if options.limit < 0:
            raise CommandError("ERR The LIMIT argument must be >= 0.")
        return at + 2
    if name in REFERENCES and options.references is None:
        options.references = REFERENCES[name]
        return at + 1
    return None


def _idempotency_option(options: _Options, words: Sequence[bytes], at: int) -> int | None:
    name, left = words[at].upper(), len(words) - at - 1
    if not (name == b"IDMPAUTO" and left >= 1) and not (name == b"IDMP" and left >= 2):
        return None
    if options.producer is not None:
        raise CommandError(f"{SYNTAX}, IDMP/IDMPAUTO specified multiple times")
    options.producer = words[at + 1]
    if not options.producer:
        raise CommandError(f"{SYNTAX}, {name.decode()} requires a non-empty producer ID")
    if name == b"IDMPAUTO":
        return at + 2
    options.key = words[at + 2]
    if not options.key:
        raise CommandError(f"{SYNTAX}, IDMP requires a non-empty idempotent ID")
    return at + 3


def plain_drafts(commands: Sequence[Sequence[bytes]]) -> list[Draft]:
    """Return the entries of the first commands, as far as they are alike: XADD, a stream, `*`.

    If one of them has a wrong number of words, there are none.
    """
    first = commands[0]
    if len(first) < 5 or first[2] != b"*" or first[0] not in _XADD or len(first) % 2 == 0:
        return []
    if len(commands) == 1:
        return [Draft(None, tuple(first[3:]))]
    alike = commands[: _count_alike([words[:3] for words in commands])]
    counts = set(map(len, alike))
    if min(counts) < 5 or any(count % 2 == 0 for count in counts):
        return []
    fields = [tuple(words[3:]) for words in alike]
    return list(map(make_draft, zip(repeat(None), fields, strict=False)))


def _count_alike(items: Sequence[object]) -> int:
    """Return the number of equal items at the beginning."""
    first = items[0]
    if items.count(first) == len(items):
        return len(items)
    return next(place for place, item in enumerate(items) if item != first)


def id_reply(entry_id: EntryId) -> bytes:
    """Return an id as Redis writes it."""
    return b"%d-%d" % entry_id


def _first_id(added: Added) -> Reply:
    return id_reply(added.ids[0])


def xadd(words: Sequence[bytes]) -> AnyPlan:
    """XADD key [options] <*|id> field value [field value ...]."""
    key, options, at = words[1], _Options(), 2
    while at < len(words) and words[at] != b"*":
        following = _trim_option(options, words, at) or _idempotency_option(options, words, at)
        if following is None and words[at].upper() == b"NOMKSTREAM":
            options.creates, following = False, at + 1
        if following is None:
            break
        at = following
    if at >= len(words):
        raise wrong_arity("xadd")
    wanted = _new_id(words[at])
    trim = options.trim()
    fields = tuple(words[at + 1 :])
    if not fields or len(fields) % 2:
        raise wrong_arity("xadd")
    if options.producer is not None and wanted is not None:
        text = "IDMP/IDMPAUTO can be used only with auto-generated IDs"
        raise CommandError(f"{SYNTAX}, {text}")
    idempotent = options.idempotent(fields)

    if wanted == MIN_ID:
        raise IdNotGreater(wanted, last_id=MIN_ID, index=0)
    creates = options.creates and len(key) <= COMMAND_NAME_BYTES_MAX
    add = Add(key, [Draft(wanted, fields)], idempotent, creates, trim=trim)

    def refuse(error: StreamError) -> Reply:
        if isinstance(error, StreamNotFound) and options.creates:
            check_names(key)  # a long name is refused only if it would create a stream
        return where_missing(None)(error)

    return Plan(add, _first_id, refuse)


def xtrim(words: Sequence[bytes]) -> AnyPlan:
    """XTRIM key MAXLEN|MINID [=|~] threshold [LIMIT n] [KEEPREF|DELREF|ACKED]."""
    key, options, at = words[1], _Options(), 2
    while at < len(words):
        following = _trim_option(options, words, at)
        if following is None:
            raise CommandError(SYNTAX)
        at = following
    trim = options.trim()
    if trim is None:
        raise CommandError(f"{SYNTAX}, XTRIM must be called with a trimming strategy")
    return Plan(Trim(key, trim), int, where_missing(0))


def xlen(words: Sequence[bytes]) -> AnyPlan:
    """XLEN key."""
    return Plan(DescribeStream(words[1]), lambda info: info.length, where_missing(0))


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
    limit: int | None = None
    bounds = bounds.of_first_page()
    at = 4
    while at < len(words):
        if words[at].upper() != b"COUNT" or at + 1 >= len(words):
            raise CommandError(SYNTAX)
        limit = max(integer(words[at + 1]), 0)
        at += 2
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


def xdel(words: Sequence[bytes]) -> AnyPlan:
    """XDEL key id [id ...]."""
    key, if_missing = words[1], where_missing(0)
    try:
        ids = strict_ids(words[2:])
    except InvalidId as error:  # Redis checks the key before the ids
        return failing(error, DescribeStream(key), if_missing)
    return Plan(Delete(key, ids), lambda outcomes: outcomes.count(Deletion.DELETED), if_missing)


def xdelex(words: Sequence[bytes]) -> AnyPlan:
    """XDELEX key [KEEPREF|DELREF|ACKED] IDS n id [id ...]."""
    references, ids = ids_block(words, 2)
    if_missing = where_missing(deletions_reply([Deletion.NOT_FOUND] * len(ids)))
    return Plan(Delete(words[1], ids, references), deletions_reply, if_missing)


def ids_block(words: Sequence[bytes], at: int) -> tuple[References, list[EntryId]]:
    """Read `[KEEPREF|DELREF|ACKED] IDS n id [id ...]`, in any order, to the end of the words.

    As in Redis, the ids are parsed after all other words have been checked, and the last IDS is
    used.
    """
    references: References | None = None
    ids: Sequence[bytes] = ()
    while at < len(words):
        name, left = words[at].upper(), len(words) - at - 1
        if name in REFERENCES and references is None:
            references = REFERENCES[name]
            at += 1
        elif name == b"IDS" and left:
            count = integer(words[at + 1], _NO_COUNT)
            if count <= 0:
                raise CommandError(_NO_COUNT)
            if count > left - 1:
                text = "The `numids` parameter must match the number of arguments"
                raise CommandError(f"ERR {text}")
            ids = words[at + 2 : at + 2 + count]
            at += 2 + count
        else:
            raise CommandError(SYNTAX)
    if not ids:
        raise CommandError("ERR IDS option is required")
    return references or References.KEEP, strict_ids(ids)


def deletions_reply(outcomes: Sequence[Deletion]) -> Reply:
    """Return the array of integers with which XDELEX and XACKDEL reply."""
    return [_DELETION[outcome] for outcome in outcomes]


@dataclass
class ReadOptions:
    """The options before STREAMS in XREAD and XREADGROUP."""

    count: int | None = None
    total_max: int | None = None
    size_bytes_max: int | None = None
    block_ms: int | None = None  # None: do not block; 0: block without limit

    @property
    def has_budget(self) -> bool:
        """Tell whether the client bounds what all streams together return."""
        return self.total_max is not None or self.size_bytes_max is not None

    @property
    def wait_ms(self) -> int | None:
        """Return the time to wait: 0 means no wait, None means without limit."""
        return 0 if self.block_ms is None else self.block_ms or None

    def budget(self, bounds: Bounds) -> Budget:
        """Return the budget of all streams together, within the bounds of one reply."""
        entries_max = min(self.total_max or bounds.entries_max, bounds.entries_max)
        return Budget(entries_max, bounds.size_bytes_max, self.size_bytes_max)


def read_option(options: ReadOptions, words: Sequence[bytes], at: int) -> int | None:
    """Read an option of both XREAD and XREADGROUP at `at`; return the place after it, or None."""
    name = words[at].upper()
    if at + 1 >= len(words) or name not in (b"COUNT", b"BLOCK", b"MAXCOUNT", b"MAXSIZE"):
        return None
    if name == b"BLOCK":
        options.block_ms = integer(words[at + 1], "ERR timeout is not an integer or out of range")
        if options.block_ms < 0:
            raise CommandError("ERR timeout is negative")
    elif name == b"COUNT":
        options.count = max(integer(words[at + 1]), 0) or None
    else:
        value = integer(words[at + 1], f"ERR {name.decode()} must be a positive integer")
        if value <= 0:
            raise CommandError(f"ERR {name.decode()} must be a positive integer")
        if name == b"MAXCOUNT":
            options.total_max = value
        else:
            options.size_bytes_max = value
    return at + 2


def check_read_options(options: ReadOptions) -> None:
    """Refuse a MAXCOUNT below COUNT."""
    if options.total_max is not None and options.total_max < (options.count or 0):
        raise CommandError("ERR MAXCOUNT must be greater than or equal to COUNT")


def keys_and_ids(
    words: Sequence[bytes], at: int, command: str, what: str
) -> list[tuple[bytes, bytes]]:
    """Return the keys after STREAMS, each with its id."""
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
    options, at = ReadOptions(), 1
    while at < len(words) and words[at].upper() != b"STREAMS":
        following = read_option(options, words, at)
        if following is None:
            raise _xread_error(words[at].upper())
        at = following
    if at >= len(words):
        raise CommandError(SYNTAX)
    check_read_options(options)
    is_open = bounds.are_open and not options.has_budget
    bounds = bounds.of_first_page() if is_open else bounds
    bounds = bounds._replace(entries_max=min(bounds.entries_max, XREAD_MAX))
    cursors = [
        StreamCursor(key, _after(word))
        for key, word in keys_and_ids(words, at + 1, "xread", ", '+', or '$'")
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
    """Return the plan of an XREAD whose reply was cut, or None if it has all there is.

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
    """Tell whether there may be more than was read."""
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


def _xread_error(name: bytes) -> CommandError:
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


def xsetid(words: Sequence[bytes]) -> AnyPlan:
    """XSETID key id [ENTRIESADDED n] [MAXDELETEDID id]."""
    last_id, added, deleted, at = strict_id(words[2]), None, MIN_ID, 3
    while at < len(words):
        name = words[at].upper()
        if at + 1 >= len(words) or name not in (b"ENTRIESADDED", b"MAXDELETEDID"):
            raise CommandError(SYNTAX)
        if name == b"ENTRIESADDED":
            added = integer(words[at + 1])
            if added < 0:
                raise CommandError("ERR entries_added must be positive")
        else:
            deleted = strict_id(words[at + 1])
            if last_id < deleted:
                text = "The ID specified in XSETID is smaller than the provided"
                raise CommandError(f"ERR {text} max_deleted_entry_id")
        at += 2

    return Plan(SetCounters(words[1], last_id, added, deleted), done)


class _Setting(NamedTuple):
    """A setting of XCFGSET: the field of the configuration that it sets, and its bounds."""

    field: str
    factor: int  # converts a value to the unit of the field
    maximum: int
    unit: str


_SETTINGS = {
    b"IDMP-DURATION": _Setting(
        "idempotency_window_ms", 1000, IDEMPOTENCY_WINDOW_MS_MAX // 1000, "seconds"
    ),
    b"IDMP-MAXSIZE": _Setting("idempotency_max", 1, IDEMPOTENCY_KEYS_MAX, "entries"),
}


def xcfgset(words: Sequence[bytes]) -> AnyPlan:
    """XCFGSET key [IDMP-DURATION s] [IDMP-MAXSIZE n]."""
    key = words[1]
    try:
        patch = Patch.of(StreamConfig, **_settings(words))
    except CommandError as error:  # Redis checks the key first
        return failing(error, DescribeStream(key))
    return Plan(UpdateStream(key, patch), done)


def _settings(words: Sequence[bytes]) -> dict[str, int]:
    """Return the fields that the command sets, with their values."""
    given: dict[str, int] = {}
    at = 2
    while at < len(words):
        name = words[at].upper()
        if name not in _SETTINGS or at + 1 >= len(words):
            raise CommandError(SYNTAX)
        field, factor, maximum, unit = _SETTINGS[name]
        if field in given:
            raise CommandError(f"ERR {name.decode()} specified multiple times")
        value = integer(words[at + 1])
        if not 1 <= value <= maximum:
            raise CommandError(f"ERR {name.decode()} must be between 1 and {maximum} {unit}")
        given[field] = value * factor
        at += 2
    if not given:
        raise CommandError("ERR At least one parameter must be specified")
    return given


def xidmprecord(words: Sequence[bytes]) -> AnyPlan:
    """XIDMPRECORD key pid iid id."""
    key, producer, iid = words[1:4]
    if not producer:
        raise CommandError("ERR producer ID must be non-empty")
    if not iid:
        raise CommandError("ERR idempotent ID must be non-empty")
    check_idempotency_ids(producer, iid)
    entry_id = strict_id(words[4])

    return Plan(RememberKey(key, producer, iid, entry_id), done, _refuse_to_remember)


def _refuse_to_remember(error: StreamError) -> Reply:
    if isinstance(error, EntryNotFound):
        raise CommandError("ERR No such message in stream")
    if isinstance(error, IdempotencyMismatch):
        text = "IID already exists for this producer with a different stream ID"
        raise CommandError(f"ERR {text}")
    raise error


def entry_reply(entry: Entry) -> Reply:
    """Return an entry as Redis writes it: the id, and a flat array of names and values."""
    entry_id, fields = entry
    return [b"%d-%d" % entry_id, list(fields)]


def _new_id(word: bytes) -> IdRequest:
    if word == b"*":
        return None
    if word.endswith(b"-*"):
        return PartialId(strict_id(word[:-2], U64_MAX).ms)
    return strict_id(word)


COMMANDS: CommandTable = {
    b"XADD": SmallReply(-5, {Verb.APPEND}, xadd),
    b"XTRIM": SmallReply(-4, {Verb.MANAGE}, xtrim),
    b"XLEN": SmallReply(2, {Verb.READ, Verb.MANAGE}, xlen, only_reads=True),
    b"XRANGE": LargeReply(-4, {Verb.READ}, xrange, only_reads=True),
    b"XREVRANGE": LargeReply(-4, {Verb.READ}, xrevrange, only_reads=True),
    b"XREAD": LargeReply(-4, {Verb.READ}, xread, only_reads=True),
    b"XDEL": SmallReply(-3, {Verb.MANAGE}, xdel),
    b"XDELEX": SmallReply(-5, {Verb.MANAGE}, xdelex),
    b"XSETID": SmallReply(-3, {Verb.MANAGE}, xsetid),
    b"XCFGSET": SmallReply(-2, {Verb.MANAGE}, xcfgset),
    b"XIDMPRECORD": SmallReply(5, {Verb.APPEND}, xidmprecord),
}
