"""XLEN, XSETID, XCFGSET, XIDMPRECORD: the length, counters and idempotency keys of a stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from headgate.app.auth.grants import Verb
from headgate.app.redis_syntax.command import CommandTable, SmallReply
from headgate.app.redis_syntax.replies import Reply
from headgate.app.redis_syntax.words import (
    SYNTAX,
    AnyPlan,
    CommandError,
    Option,
    Plan,
    check_idempotency_ids,
    done,
    failing,
    integer,
    number,
    read_options,
    strict_id,
    where_missing,
)
from headgate.engine.config import Patch, StreamConfig
from headgate.engine.entry import MIN_ID, EntryId
from headgate.engine.errors import EntryNotFound, IdempotencyMismatch, StreamError
from headgate.engine.limits import IDEMPOTENCY_KEYS_MAX, IDEMPOTENCY_WINDOW_MS_MAX
from headgate.engine.requests.keyspace import RememberKey, SetCounters
from headgate.engine.requests.streams import DescribeStream, UpdateStream


def xlen(words: Sequence[bytes]) -> AnyPlan:
    return Plan(DescribeStream(words[1]), lambda info: info.length, where_missing(0))


_ADDED = Option(number(0, "ERR entries_added must be positive"))


def xsetid(words: Sequence[bytes]) -> AnyPlan:
    """XSETID key id [ENTRIESADDED n] [MAXDELETEDID id]."""
    last_id = strict_id(words[2])

    def deleted_id(word: bytes) -> EntryId:
        deleted = strict_id(word)
        if last_id < deleted:
            text = "The ID specified in XSETID is smaller than the provided"
            raise CommandError(f"ERR {text} max_deleted_entry_id")
        return deleted

    options = {b"ENTRIESADDED": _ADDED, b"MAXDELETEDID": Option(deleted_id)}
    given, _ = read_options(words, 3, options)
    added, deleted = given.get(b"ENTRIESADDED"), given.get(b"MAXDELETEDID", MIN_ID)
    return Plan(SetCounters(words[1], last_id, added, deleted), done)


class _Setting(NamedTuple):
    """A setting of XCFGSET: the field of the configuration, and its bounds."""

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


COMMANDS: CommandTable = {
    b"XLEN": SmallReply({Verb.READ, Verb.MANAGE}, xlen, only_reads=True),
    b"XSETID": SmallReply({Verb.MANAGE}, xsetid),
    b"XCFGSET": SmallReply({Verb.MANAGE}, xcfgset),
    b"XIDMPRECORD": SmallReply({Verb.APPEND}, xidmprecord),
}
