"""DUMP, RESTORE, COPY; MEMORY USAGE and OBJECT: streams as a whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from headgate.app.auth.grants import Verb
from headgate.app.backends.payloads import PAYLOADS, PayloadsBusy, PayloadTooLarge
from headgate.app.rdb.payload import NoStream, WrongFooter
from headgate.app.rdb.source import RdbError, Share
from headgate.app.redis_syntax.command import (
    ANY_RIGHT,
    CommandTable,
    LargeReply,
    SmallReply,
    SubcommandTable,
)
from headgate.app.redis_syntax.replies import Reply
from headgate.app.redis_syntax.words import (
    FLAG,
    SYNTAX,
    AnyPlan,
    Bounds,
    CommandError,
    Option,
    Options,
    Plan,
    check_idempotency_ids,
    check_names,
    database,
    done,
    number,
    read_options,
    where_missing,
)
from headgate.engine.entry import MIN_ID
from headgate.engine.errors import StreamError, StreamExists, StreamTooLarge
from headgate.engine.images import CountersImage, StreamImage
from headgate.engine.requests.keyspace import (
    CopyStream,
    CountStreams,
    DumpStream,
    MeasureStream,
    RestoreStream,
)

_EMPTY = StreamImage([], CountersImage(MIN_ID, MIN_ID, 0))

_BUSY = "BUSYKEY Target key name already exists."
_NO_FREQUENCY = (
    "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that "
    "when switching between policies at runtime LRU and LFU data will take some time to adjust."
)


# Dump and restore


def dump(words: Sequence[bytes], bounds: Bounds) -> AnyPlan:
    async def finish(image: object) -> Reply:
        if not isinstance(image, StreamImage):
            return None
        return await PAYLOADS.write(image)

    def shape(image: StreamImage) -> Reply:
        return cast("Reply", image)  # `finish` makes the reply of it

    return Plan(DumpStream(words[1], bounds.size_bytes_max), shape, _where_too_large(None), finish)


_RESTORE: Options = {
    b"REPLACE": FLAG,
    b"ABSTTL": FLAG,
    b"IDLETIME": Option(number(0, "ERR Invalid IDLETIME value, must be >= 0"), without=b"FREQ"),
    b"FREQ": Option(
        number(0, "ERR Invalid FREQ value, must be >= 0 and <= 255", maximum=255),
        without=b"IDLETIME",
    ),
}


def restore(words: Sequence[bytes]) -> AnyPlan:
    """RESTORE key ttl payload [REPLACE] [ABSTTL] [IDLETIME s] [FREQ f]."""
    check_names(words[1])
    given, _ = read_options(words, 4, _RESTORE)
    replaces, is_absolute = b"REPLACE" in given, b"ABSTTL" in given

    async def prepare(share: Share) -> AnyPlan:
        try:
            ttl_ms = _time_to_live(words[2])
            image = await _read(words[3], share)
        except (PayloadTooLarge, PayloadsBusy):
            raise  # nothing of a transaction is done then
        except StreamError as error:
            return _refusing(words[1], error.with_traceback(None), replaces=replaces)
        request = RestoreStream(
            words[1],
            image,
            replaces,
            None if is_absolute or not ttl_ms else ttl_ms,
            ttl_ms if is_absolute and ttl_ms else None,
        )
        return Plan(request, done, _where_busy)

    return Plan(RestoreStream(words[1], _EMPTY), done, prepare=prepare)


_time_to_live = number(0, "ERR Invalid TTL value, must be >= 0")


async def _read(payload: bytes, share: Share) -> StreamImage:
    try:
        return await PAYLOADS.read(payload, share, _with_checked_names)
    except WrongFooter:
        raise CommandError("ERR DUMP payload version or checksum are wrong") from None
    except NoStream:
        raise CommandError("ERR Bad data format: only streams can be restored") from None
    except RdbError:
        raise CommandError("ERR Bad data format") from None


def _with_checked_names(image: StreamImage) -> StreamImage:
    """Check that names are not too long. A hundred thousand of them take 15 ms."""
    for group in image.groups:
        check_names(group.name, *(consumer.name for consumer in group.consumers))
    for producer, used in ({} if image.keys is None else image.keys.producers).items():
        check_idempotency_ids(producer, *(key for key, _ in used))
    return image


def _refusing(key: bytes, error: StreamError, *, replaces: bool) -> AnyPlan:
    """Return the plan for an invalid payload; Redis checks the key first."""

    def shape(count: int) -> Reply:
        raise CommandError(_BUSY) if count and not replaces else error

    return Plan(CountStreams((key,)), shape)


def _where_busy(error: StreamError) -> Reply:
    if isinstance(error, StreamExists):
        raise CommandError(_BUSY)
    raise error


def _where_too_large(missing: Reply) -> Callable[[StreamError], Reply]:
    def refuse(error: StreamError) -> Reply:
        if isinstance(error, StreamTooLarge):
            raise CommandError(f"ERR {error}: use `headgate export`")
        return where_missing(missing)(error)

    return refuse


# Copies


_COPY: Options = {b"REPLACE": FLAG, b"DB": Option(database)}


def copy(words: Sequence[bytes]) -> AnyPlan:
    """COPY source destination [DB n] [REPLACE]."""
    check_names(words[2])
    given, _ = read_options(words, 3, _COPY)
    if words[1] == words[2]:
        raise CommandError("ERR source and destination objects are the same")
    return Plan(CopyStream(words[1], words[2], b"REPLACE" in given), int, _where_too_large(0))


# What is known of a key


_USAGE: Options = {b"SAMPLES": Option(number(0, SYNTAX))}


def memory_usage(words: Sequence[bytes]) -> AnyPlan:
    """MEMORY USAGE key [SAMPLES n]."""
    given, _ = read_options(words, 3, _USAGE)
    return Plan(MeasureStream(words[2], given.get(b"SAMPLES")), int, where_missing(None))


def object_(words: Sequence[bytes]) -> AnyPlan:
    """OBJECT ENCODING key, OBJECT FREQ key, OBJECT IDLETIME key, OBJECT REFCOUNT key."""
    replies: dict[bytes, Reply] = {b"ENCODING": b"stream", b"REFCOUNT": 1, b"IDLETIME": 0}
    name = words[1].upper()

    def shape(count: int) -> Reply:
        if not count:
            return None
        if name not in replies:
            raise CommandError(_NO_FREQUENCY)
        return replies[name]

    return Plan(CountStreams(words[2:]), shape)


COMMANDS: CommandTable = {
    b"DUMP": LargeReply({Verb.READ}, dump, only_reads=True),
    b"RESTORE": SmallReply({Verb.MANAGE}, restore),
    b"COPY": SmallReply({Verb.MANAGE}, copy),
}

SUBCOMMANDS: SubcommandTable = {
    b"MEMORY": {b"USAGE": SmallReply({Verb.READ}, memory_usage, only_reads=True)},
    b"OBJECT": {
        b"ENCODING": SmallReply(ANY_RIGHT, object_, only_reads=True),
        b"FREQ": SmallReply(ANY_RIGHT, object_, only_reads=True),
        b"IDLETIME": SmallReply(ANY_RIGHT, object_, only_reads=True),
        b"REFCOUNT": SmallReply(ANY_RIGHT, object_, only_reads=True),
    },
}
