"""The comparable bytes of two replies: all, but for times and differences of versions.

`tests.model.histories` tells the differences of versions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.model.redis_server import RedisError, Words
from tests.model.wire.replies import Tree, tree_of

HIDDEN = {b"inactive", b"lag", b"entries-read", b"radix-tree-nodes"}
HIDDEN |= {b"idmp-duration", b"idmp-maxsize", b"pids-tracked", b"iids-tracked"}
HIDDEN |= {b"iids-added", b"iids-duplicates", b"nacked-count"}
TIMES = {b"idle", b"seen-time", b"active-time"}
NODES = b"radix-tree-keys"


def is_of_another_version(command: Words, theirs: Any, ours: Any) -> bool:
    """Tell whether a difference is one of versions or is meant."""
    name = command[0].upper()
    if name in (b"XREAD", b"XREADGROUP") and b"+" in command:
        return isinstance(theirs, str) and "Invalid stream ID" in theirs
    if name == b"XSETID":
        return isinstance(ours, str) and "max_deleted_entry_id" in ours
    if name == b"XINFO" and isinstance(theirs, dict) and isinstance(ours, dict):
        return theirs == ours | {NODES: ours[NODES] + 1}
    return False


class Parted(Exception):
    """A reply differs as versions differ, and from here on the states do."""


def check_equal(command: Words, theirs: bytes, ours: bytes, queued: list[Words]) -> None:
    """Compare the replies to a command.

    Args:
        command: the command.
        theirs: the reply of redis-server.
        ours: the reply of the gateway.
        queued: the commands of the transaction, if the command is EXEC.

    Raises:
        Parted: they differ as versions do.
        AssertionError: they differ.
    """
    if ours == theirs:
        return
    check_trees(command, tree_of(theirs), tree_of(ours), queued)


def check_trees(command: Words, theirs: Tree, ours: Tree, queued: Sequence[Words] = ()) -> None:
    """Compare the replies to a command, as trees. See `check_equal`."""
    if queued and theirs[0] == ours[0] == b"*" and len(theirs[1]) == len(ours[1]) == len(queued):
        for each, their_part, our_part in zip(queued, theirs[1], ours[1], strict=True):
            check_trees(each, their_part, our_part)
        return
    if comparable(command, theirs) == comparable(command, ours):
        return
    if is_of_another_version(command, _plain(command, theirs), _plain(command, ours)):
        raise Parted
    raise AssertionError(f"{command}\ntheirs {theirs}\nours   {ours}")


def tree_from(reply: Any) -> Tree:
    """Return a reply as a tree that is known by its contents alone; every null is an array."""
    match reply:
        case RedisError():
            return b"-", reply.encode()
        case str():
            return b"+", reply.encode()
        case int():
            return b":", b"%d" % reply
        case bytes():
            return b"$", reply
        case list():
            return b"*", [tree_from(item) for item in reply]
    return b"*", None


def comparable(command: Words, tree: Tree) -> Any:
    """Leave out of a reply what differs by version or by nature."""
    kind, content = tree
    name = command[0].upper()
    if kind == b"-":
        return "Unbalanced" if b"Unbalanced" in content else tree
    if name == b"MEMORY" and kind == b":":
        return kind  # both take some memory
    if kind not in (b"*", b"%") or content is None:
        return tree
    if name == b"KEYS":
        return kind, sorted(content)
    if name == b"XPENDING" and len(command) > 3:
        return kind, [(item[0], item[1][:2] + item[1][3:]) for item in content]
    if name == b"XINFO":
        if command[1].upper() == b"STREAM":
            return _fields(tree)
        return kind, [_fields(item) for item in content]
    return tree


def _fields(tree: Tree) -> Any:
    """Return the fields that are compared, with their order and types."""
    kind, flat = tree
    fields = []
    for name, value in zip(flat[::2], flat[1::2], strict=True):
        if name[1] in HIDDEN | TIMES:
            continue
        if name[1] in (b"groups", b"consumers") and value[0] == b"*":
            fields.append((name, (b"*", [_fields(item) for item in value[1]])))
        elif name[1] in (b"pending", b"pel") and value[0] == b"*":  # without the times
            fields.append((name, (b"*", [item[1][:-2] + item[1][-1:] for item in value[1]])))
        else:
            fields.append((name, value))
    return kind, fields


def _plain(command: Words, tree: Tree) -> Any:
    """Return a reply as `is_of_another_version` looks at it."""
    kind, content = tree
    if kind == b"-":
        return RedisError(content.decode())
    if kind in (b"*", b"%") and [word.upper() for word in command[:2]] == [b"XINFO", b"STREAM"]:
        fields = _fields(tree)[1]
        return {name[1]: int(value[1]) if value[0] == b":" else value for name, value in fields}
    return content
