"""XGROUP: groups, and their consumers."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET

from headgate.app.auth.grants import Verb
from headgate.app.redis_syntax.command import SmallReply, SubcommandTable
from headgate.app.redis_syntax.replies import Reply
from headgate.app.redis_syntax.words import (
    FLAG,
    AnyPlan,
    CommandError,
    Option,
    Options,
    Plan,
    check_names,
    done,
    failing,
    lax_id,
    number,
    read_options,
    shown,
    strict_id,
)
from headgate.engine.errors import GroupNotFound, InvalidId, StreamError, StreamNotFound
from headgate.engine.requests.groups import (
    CreateConsumer,
    CreateGroup,
    DeleteConsumer,
    DescribeGroup,
    DestroyGroup,
    GroupStart,
    UpdateGroup,
)
from headgate.engine.requests.streams import DescribeStream

_NO_KEY = (
    "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use "
    "the MKSTREAM option to create an empty stream automatically."
)
_UNKNOWN = "unknown subcommand or wrong number of arguments for"


def _bad_options(subcommand: bytes) -> CommandError:
    return CommandError(f"ERR {_UNKNOWN} '{shown(subcommand)}'. Try XGROUP HELP.")


def _entries_read(word: bytes) -> int | None:
    value = _at_least_minus_one(word)
    return None if value == -1 else value


_at_least_minus_one = number(-1, "ERR value for ENTRIESREAD must be positive or -1")

_SETID: Options = {b"ENTRIESREAD": Option(_entries_read)}
_CREATE: Options = {**_SETID, b"MKSTREAM": FLAG}


def _xgroup_create(words: Sequence[bytes]) -> AnyPlan:
    key, group = words[2], words[3]
    check_names(key, group)
    given, _ = read_options(words, 5, _CREATE, lambda _: _bad_options(words[1]))
    makes_stream = b"MKSTREAM" in given

    try:
        last_id = None if words[4] == b"$" else strict_id(words[4])
    except InvalidId as error:
        if makes_stream:
            raise
        return failing(error, DescribeStream(key), _refuse)  # Redis checks the key first
    start = GroupStart(last_id, given.get(b"ENTRIESREAD"))
    create = CreateGroup(key, group, start, create_stream=makes_stream, exist_ok=False)
    return Plan(create, done, _refuse)


def _xgroup_setid(words: Sequence[bytes]) -> AnyPlan:
    key, group = words[2], words[3]
    given, _ = read_options(words, 5, _SETID, lambda _: _bad_options(words[1]))

    try:
        last_id = None if words[4] == b"$" else lax_id(words[4])
    except InvalidId as error:  # Redis checks the group first
        return failing(error, DescribeGroup(key, group), _refuse)
    entries_read = given.get(b"ENTRIESREAD")
    position = UNSET if entries_read is None else entries_read
    return Plan(UpdateGroup(key, group, last_id, position), done, _refuse)


def _xgroup_destroy(words: Sequence[bytes]) -> AnyPlan:
    return Plan(DestroyGroup(words[2], words[3]), int, _refuse)


def _xgroup_createconsumer(words: Sequence[bytes]) -> AnyPlan:
    key, group, consumer = words[2:5]
    check_names(consumer)

    create = CreateConsumer(key, group, consumer)
    return Plan(create, lambda created: int(created.is_new), _refuse)


def _xgroup_delconsumer(words: Sequence[bytes]) -> AnyPlan:
    key, group, consumer = words[2:5]

    delete = DeleteConsumer(key, group, consumer, release=False)
    return Plan(delete, lambda held: held or 0, _refuse)


def _refuse(error: StreamError) -> Reply:
    """Raise the error of XGROUP for a missing key or group; raise any other error unchanged."""
    if isinstance(error, GroupNotFound) and error.stream_exists:
        raise no_such_group(error.stream, error.group)
    if isinstance(error, StreamNotFound | GroupNotFound):
        raise CommandError(_NO_KEY)
    raise error


def no_such_group(key: bytes, group: bytes) -> CommandError:
    return CommandError(
        f"NOGROUP No such consumer group '{shown(group)}' for key name '{shown(key)}'"
    )


SUBCOMMANDS: SubcommandTable = {
    b"XGROUP": {
        b"CREATE": SmallReply({Verb.MANAGE}, _xgroup_create),
        b"SETID": SmallReply({Verb.MANAGE}, _xgroup_setid),
        b"DESTROY": SmallReply({Verb.MANAGE}, _xgroup_destroy),
        b"CREATECONSUMER": SmallReply({Verb.MANAGE}, _xgroup_createconsumer),
        b"DELCONSUMER": SmallReply({Verb.MANAGE}, _xgroup_delconsumer),
    }
}
