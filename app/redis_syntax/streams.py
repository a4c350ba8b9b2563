"""XADD, XTRIM, XLEN, XRANGE, XREVRANGE, XDEL, XDELEX, XREAD, XSETID, XCFGSET, XIDMPRECORD."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

import msgspec

from headgate.app.redis_syntax.words import (
    OK,
    SYNTAX,
    Bounds,
    CommandError,
    Plan,
    Reply,
    Wait,
    at_once,
    check_names,
    check_queues,
    done,
    integer,
    range_end,
    range_start,
    strict_id,
    strict_ids,
    wrong_arity,
)
from headgate.engine.commands import KeyRemembered
from headgate.engine.decisions import Decision, streams
from headgate.engine.decisions.views import freeze, read
from headgate.engine.entry import MIN_ID, Draft, Entry, EntryId, IdRequest, PartialId
from headgate.engine.errors import StreamNotFound
from headgate.engine.limits import (
    IDEMPOTENCY_KEYS_MAX,
    IDEMPOTENCY_WINDOW_MS_MAX,
    READ_PARTS_MAX,
    U64_MAX,
    XREAD_MAX,
)
from headgate.engine.replies import Deletion
from headgate.engine.requests import From, References, StreamCursor, TrimRequest
from headgate.engine.state.idempotency import Idempotent, Made, hash_fields
from headgate.engine.state.keyspace import Keyspace
from headgate.engine.state.log import Log
from headgate.engine.state.read_room import ReadRoom
from headgate.engine.wait_queue import QueueKey

REFERENCES = {
    b"KEEPREF": References.KEEP,
    b"DELREF": References.DELETE,
    b"ACKED": References.ACKED,
}
_DELETION = {Deletion.DELETED: 1, Deletion.NOT_FOUND: -1, Deletion.REFERENCED: 2}
_LIMIT = "LIMIT cannot be used without"
_NO_COUNT = "ERR Number of IDs must be a positive integer"


@dataclass
class _Options:
    """What stands between the key and the id of XADD, or after the key of XTRIM."""

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
        """Return what makes the append repeatable, if that was asked for.

        Raises:
            CommandError: it is too long to be remembered.
        """
        if self.producer is None:
            return None
        found = Idempotent(self.producer, self.key or hash_fields(fields))
        check_names(found.producer, found.key)
        return found

    def trim(self) -> TrimRequest | None:
        """Return the trim that was asked for.

        Raises:
            CommandError: LIMIT stands where it has no meaning.
        """
        if self.limit and not self.has_trim:
            raise CommandError(f"{SYNTAX}, {_LIMIT} specifying a trimming strategy")
        if self.limit is not None and not self.is_approximate:
            raise CommandError(f"{SYNTAX}, {_LIMIT} the special ~ option")
        if not self.has_trim:
            return None
        return TrimRequest(
            self.max_length,
            self.min_id,
            self.is_approximate,
            self.limit,
            self.references or References.KEEP,
        )


def _trim_option(options: _Options, words: Sequence[bytes], at: int) -> int | None:
    """Read a trimming option at a place; returns the place behind it, None if there is none."""
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


def xadd(words: Sequence[bytes]) -> Plan:
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

    def step(keyspace: Keyspace, now_ms: int) -> Decision[Reply]:
        is_new = keyspace.find(key) is None
        if not options.creates and is_new and wanted != MIN_ID:
            return Decision(None, [])
        if is_new:
            check_names(key)
        return streams.add(
            keyspace,
            key,
            [Draft(wanted, fields)],
            create_stream=True,
            expected_last_id=None,
            idempotent=idempotent,
            trim=trim,
            now_ms=now_ms,
        ).replied_as(lambda added: str(added.ids[0]).encode())

    return at_once(step)


def xtrim(words: Sequence[bytes]) -> Plan:
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
    request = trim

    def step(keyspace: Keyspace, now_ms: int) -> Decision[Reply]:
        del now_ms
        return streams.trim(keyspace, key, request).replied_as(int)

    return at_once(step)


def xlen(words: Sequence[bytes]) -> Plan:
    """XLEN key."""

    def step(keyspace: Keyspace, now_ms: int) -> Decision[Reply]:
        del now_ms
        stream = keyspace.find(words[1])
        return Decision(0 if stream is None else stream.log.length, [])

    return at_once(step)


def xrange(words: Sequence[bytes], bounds: Bounds) -> Plan:
    """XRANGE key start end [COUNT n]."""
    start = range_start(words[2])
    return _range(words, _Range(start, range_end(words[3]), is_down=False), bounds)


def xrevrange(words: Sequence[bytes], bounds: Bounds) -> Plan:
    """XREVRANGE key end start [COUNT n]."""
    end = range_end(words[2])
    return _range(words, _Range(range_start(words[3]), end, is_down=True), bounds)


class _Range(NamedTuple):
    start: EntryId
    end: EntryId
    is_down: bool

    def read(self, log: Log, limit: int, bounds: Bounds) -> list[Entry]:
        """Return the first `limit` entries, or all there are.

        Raises:
            CommandError: they are more than one reply may hold; a shorter one would be wrong.
        """
        found = self.first(log, min(limit, bounds.entries_max + 1), bounds.size_bytes_max)
        is_cut = len(found) > bounds.entries_max
        if found and not is_cut and len(found) < limit:  # there are no more, or they are large
            last = found[-1].id
            rest = self._replace(end=last) if self.is_down else self._replace(start=last)
            is_cut = len(rest.first(log, 2, None)) > 1
        if is_cut:
            text = f"{bounds.entries_max} entries, {READ_PARTS_MAX} names and values, or "
            text += f"{bounds.size_bytes_max} bytes"
            raise CommandError(f"ERR the reply has more than {text}: give COUNT, or a range")
        return found

    def first(self, log: Log, limit: int, size_bytes_max: int | None) -> list[Entry]:
        if self.is_down:
            return log.reverse_range(self.end, self.start, limit, ReadRoom(size_bytes_max))
        return log.range(self.start, self.end, limit, ReadRoom(size_bytes_max))


def _range(words: Sequence[bytes], wanted: _Range, bounds: Bounds) -> Plan:
    limit: int | None = None
    at = 4
    while at < len(words):
        if words[at].upper() != b"COUNT" or at + 1 >= len(words):
            raise CommandError(SYNTAX)
        limit = max(integer(words[at + 1]), 0)
        at += 2

    def step(keyspace: Keyspace, now_ms: int) -> Decision[Reply]:
        del now_ms
        stream = keyspace.find(words[1])
        if stream is None:
            return Decision([], [])
        if limit == 0:  # Redis: a null array, but an empty one for a missing key
            return Decision(None, [])
        most = stream.log.length if limit is None else limit
        found = wanted.read(stream.log, most, bounds)
        return Decision([entry_reply(entry) for entry in found], [])

    return at_once(step)


def xdel(words: Sequence[bytes]) -> Plan:
    """XDEL key id [id ...]."""

    def step(keyspace: Keyspace, now_ms: int) -> Decision[Reply]:
        del now_ms
        if keyspace.find(words[1]) is None:  # Redis: then ids are not even looked at
            return Decision(0, [])
        ids = strict_ids(words[2:])
        deletion = streams.delete(keyspace, words[1], ids)
        return deletion.replied_as(lambda outcomes: outcomes.count(Deletion.DELETED))

    return at_once(step)


def xdelex(words: Sequence[bytes]) -> Plan:
    """XDELEX key [KEEPREF|DELREF|ACKED] IDS n id [id ...]."""
    references, ids = ids_block(words, 2)

    def step(keyspace: Keyspace, now_ms: int) -> Decision[Reply]:
        del now_ms
        return streams.delete(keyspace, words[1], ids, references).replied_as(deletions_reply)

    return at_once(step)


def ids_block(words: Sequence[bytes], at: int) -> tuple[References, list[EntryId]]:
    """Read `[KEEPREF|DELREF|ACKED] IDS n id [id ...]`, in any order, to the end of the words.

    Redis: ids are looked at once all the words make sense, and the last IDS counts.
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
    """Return the integers of XDELEX and XACKDEL."""
    return [_DELETION[outcome] for outcome in outcomes]


@dataclass
class ReadOptions:
    """What stands before STREAMS in XREAD and XREADGROUP."""

    count: int | None = None
    total_max: int | None = None
    size_bytes_max: int | None = None
    block_ms: int | None = None  # None: does not block; 0: without end


def read_option(options: ReadOptions, words: Sequence[bytes], at: int) -> int | None:
    """Read an option XREAD and XREADGROUP share; returns the place behind it."""
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
    """Read the keys and ids behind STREAMS."""
    rest = words[at:]
    if not rest or len(rest) % 2:
        text = f"Unbalanced '{command}' list of streams: for each stream key an ID"
        raise CommandError(f"ERR {text}{what} must be specified.")
    half = len(rest) // 2
    return list(zip(rest[:half], rest[half:], strict=True))


def xread(words: Sequence[bytes], bounds: Bounds) -> Plan:
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
    bounds = bounds._replace(entries_max=min(bounds.entries_max, XREAD_MAX))
    cursors = [
        StreamCursor(key, _after(word))
        for key, word in keys_and_ids(words, at + 1, "xread", ", '+', or '$'")
    ]
    check_queues([cursor.stream for cursor in cursors])
    frozen: list[StreamCursor] = []

    def step(keyspace: Keyspace, now_ms: int) -> Decision[Reply]:
        del now_ms
        frozen[:] = frozen or freeze(keyspace, cursors)
        budget = Budget(options, bounds)
        reply: list[Reply] = []
        for cursor in frozen:
            if not budget.room:
                break
            [one] = read(
                keyspace,
                [cursor],
                limit=budget.limit(options.count),
                size_bytes_max=bounds.size_bytes_max,
                missing_ok=True,
            )
            entries = budget.take([entry_reply(entry) for entry in one.entries])
            if entries:
                reply.append([one.stream, entries])
        return Decision(reply or None, [])

    if options.block_ms is None:
        return at_once(step)
    queues = [QueueKey(cursor.stream, None) for cursor in cursors]
    return Plan(step, Wait(queues, options.block_ms or None))


class Budget:
    """How much of a reply may still go out, by MAXCOUNT and MAXSIZE and by what one reply may hold.

    The first entry always does. What does not is read by the next command.
    """

    def __init__(self, options: ReadOptions, bounds: Bounds) -> None:
        """Start with nothing taken."""
        self._count_left = min(options.total_max or bounds.entries_max, bounds.entries_max)
        most = bounds.size_bytes_max
        self._bytes_left = min(options.size_bytes_max or most, most)
        # As MAXSIZE counts a reply it takes longer, for each of thousands of entries.
        self._is_exact = options.size_bytes_max is not None
        self._parts_left = READ_PARTS_MAX
        self._is_first = True

    @property
    def room(self) -> int:
        """Return how many entries may still go out, if they are small."""
        is_spent = self._bytes_left <= 0 or self._parts_left <= 0
        return 0 if is_spent and not self._is_first else self._count_left

    def limit(self, count: int | None) -> int:
        """Return how many entries to read of a stream, if so many are asked for."""
        return self.room if count is None else min(count, self.room)

    def take(self, entries: Sequence[Reply]) -> list[Reply]:
        """Return as many of the entries, from the first on, as may go out."""
        taken: list[Reply] = []
        left = self.room
        for entry in entries:
            if not left:
                break
            fields = _fields(entry)
            self._parts_left -= len(fields)
            size_bytes = reply_size_bytes(entry) if self._is_exact else sum(map(len, fields))
            self._bytes_left -= size_bytes
            left = 0 if self._bytes_left <= 0 or self._parts_left <= 0 else left - 1
            taken.append(entry)
        self._is_first = self._is_first and not taken
        self._count_left -= len(taken)
        return taken


def _fields(entry: Reply) -> Sequence[bytes]:
    """Return the names and values of an entry; none if it is gone."""
    assert isinstance(entry, list)
    fields = entry[1]
    return cast("list[bytes]", fields) if isinstance(fields, list) else ()


def reply_size_bytes(reply: Reply) -> int:
    """Return how long a reply is in RESP2."""
    if reply is None:
        return 5
    if isinstance(reply, int):
        return len(str(reply)) + 3
    if isinstance(reply, bytes):
        return len(str(len(reply))) + len(reply) + 5
    if isinstance(reply, str):
        return len(reply) + 3
    return len(str(len(reply))) + 3 + sum(map(reply_size_bytes, reply))


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


def xsetid(words: Sequence[bytes]) -> Plan:
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

    def step(keyspace: Keyspace, now_ms: int) -> Decision[Reply]:
        del now_ms
        setting = streams.set_stream(keyspace, words[1], last_id, added, deleted)
        return setting.replied_as(done)

    return at_once(step)


class _Setting(NamedTuple):
    """What XCFGSET may set: a field of the configuration, and in which bounds."""

    field: str
    factor: int  # from the unit to that of the field
    most: int
    unit: str


_SETTINGS = {
    b"IDMP-DURATION": _Setting(
        "idempotency_window_ms", 1000, IDEMPOTENCY_WINDOW_MS_MAX // 1000, "seconds"
    ),
    b"IDMP-MAXSIZE": _Setting("idempotency_max", 1, IDEMPOTENCY_KEYS_MAX, "entries"),
}


def xcfgset(words: Sequence[bytes]) -> Plan:
    """XCFGSET key [IDMP-DURATION s] [IDMP-MAXSIZE n]."""

    def step(keyspace: Keyspace, now_ms: int) -> Decision[Reply]:
        stream = keyspace.stream(words[1])
        config = msgspec.structs.replace(stream.config, **_settings(words))
        return streams.configure_stream(keyspace, words[1], config, now_ms).replied_as(done)

    return at_once(step)


def _settings(words: Sequence[bytes]) -> dict[str, int]:
    """Return the fields that XCFGSET sets, with their values."""
    given: dict[str, int] = {}
    at = 2
    while at < len(words):
        name = words[at].upper()
        if name not in _SETTINGS or at + 1 >= len(words):
            raise CommandError(SYNTAX)
        field, factor, most, unit = _SETTINGS[name]
        if field in given:
            raise CommandError(f"ERR {name.decode()} specified multiple times")
        value = integer(words[at + 1])
        if not 1 <= value <= most:
            raise CommandError(f"ERR {name.decode()} must be between 1 and {most} {unit}")
        given[field] = value * factor
        at += 2
    if not given:
        raise CommandError("ERR At least one parameter must be specified")
    return given


def xidmprecord(words: Sequence[bytes]) -> Plan:
    """XIDMPRECORD key pid iid id."""
    key, producer, iid = words[1:4]
    if not producer:
        raise CommandError("ERR producer ID must be non-empty")
    if not iid:
        raise CommandError("ERR idempotent ID must be non-empty")
    check_names(producer, iid)
    entry_id = strict_id(words[4])

    def step(keyspace: Keyspace, now_ms: int) -> Decision[Reply]:
        stream = keyspace.find(key)
        if stream is None:
            raise StreamNotFound(key)
        if stream.log.get(entry_id) is None:
            raise CommandError("ERR No such message in stream")
        since_ms = keyspace.steady_ms(now_ms) - streams.key_window_ms(keyspace, stream)
        made = stream.keys.find(Idempotent(producer, iid), since_ms)
        if made is not None:
            if made.first_id != entry_id:
                text = "IID already exists for this producer with a different stream ID"
                raise CommandError(f"ERR {text}")
            return Decision(OK, [])
        most = streams.keys_max(keyspace, stream)
        made = Made(entry_id, 1, b"", now_ms)
        return Decision(OK, [KeyRemembered(key, producer, iid, made, most)])

    return at_once(step)


def entry_reply(entry: Entry) -> Reply:
    """Return an entry as Redis does: its id, and its fields laid flat."""
    entry_id, fields = entry
    return [b"%d-%d" % entry_id, list(fields)]


def _new_id(word: bytes) -> IdRequest:
    if word == b"*":
        return None
    if word.endswith(b"-*"):
        return PartialId(strict_id(word[:-2], U64_MAX).ms)
    return strict_id(word)
