"""XADD, XTRIM, XDEL, XDELEX: entries appended, and entries removed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat

from headgate.app.auth.grants import Verb
from headgate.app.redis_syntax.command import CommandTable, SmallReply
from headgate.app.redis_syntax.replies import Reply
from headgate.app.redis_syntax.words import (
    SYNTAX,
    AnyPlan,
    CommandError,
    Plan,
    check_idempotency_ids,
    check_names,
    failing,
    number,
    positive,
    strict_id,
    strict_ids,
    where_missing,
    wrong_arity,
)
from headgate.engine.entry import MIN_ID, Draft, EntryId, IdRequest, PartialId, make_drafts
from headgate.engine.errors import IdNotGreater, InvalidId, StreamError, StreamNotFound
from headgate.engine.limits import COMMAND_NAME_BYTES_MAX, U64_MAX
from headgate.engine.replies import Added, Deletion
from headgate.engine.requests.entries import Add, Delete, References, Trim, TrimTo
from headgate.engine.requests.idempotency import Idempotent, hash_fields
from headgate.engine.requests.streams import DescribeStream

REFERENCES = {b"KEEPREF": References.KEEP, b"DELREF": References.DELETE, b"ACKED": References.ACKED}

_DELETION = {Deletion.DELETED: 1, Deletion.NOT_FOUND: -1, Deletion.REFERENCED: 2}
_id_count = positive("ERR Number of IDs must be a positive integer")


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
            count = _id_count(words[at + 1])
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


_LIMIT = "LIMIT cannot be used without"
_XADD = frozenset({b"XADD", b"xadd"})


_max_length = number(0, "ERR The MAXLEN argument must be >= 0.")
_limit = number(0, "ERR The LIMIT argument must be >= 0.")


@dataclass
class _Options:
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
        """Return the idempotency key, if any. Raises CommandError if it is too long."""
        if self.producer is None:
            return None
        key = Idempotent(self.producer, self.key or hash_fields(fields))
        check_idempotency_ids(key.producer, key.key)
        return key

    def trim(self) -> TrimTo | None:
        """Return the trim, if any. Raises CommandError for LIMIT without an approximate trim."""
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
    """Read a trimming option at `at`; return the position after it, or None if there is none."""
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
            options.max_length = _max_length(words[value_at])
        return value_at + 1
    if name == b"LIMIT" and left:
        options.limit = _limit(words[at + 1])
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
    """Return the drafts of the leading `XADD <same stream> *`; none if one is malformed."""
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
    return make_drafts(repeat(None), fields)


def _count_alike(items: Sequence[object]) -> int:
    first = items[0]
    if items.count(first) == len(items):
        return len(items)
    return next(place for place, item in enumerate(items) if item != first)


def id_reply(entry_id: EntryId) -> bytes:
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


def _new_id(word: bytes) -> IdRequest:
    if word == b"*":
        return None
    if word.endswith(b"-*"):
        return PartialId(strict_id(word[:-2], U64_MAX).ms)
    return strict_id(word)


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


COMMANDS: CommandTable = {
    b"XADD": SmallReply({Verb.APPEND}, xadd),
    b"XTRIM": SmallReply({Verb.MANAGE}, xtrim),
    b"XDEL": SmallReply({Verb.MANAGE}, xdel),
    b"XDELEX": SmallReply({Verb.MANAGE}, xdelex),
}
