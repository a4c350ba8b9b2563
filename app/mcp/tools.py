"""Tools: each is a function that turns its arguments into a request of the HTTP API.

The docstring of a function is the description that an agent reads, and its parameters are the
schema of the arguments. The operation of the API checks rights, limits of use and everything that
depends on the state of a stream.
"""

import json
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, cast

from mcp_types import Tool, ToolAnnotations
from pydantic import Field, TypeAdapter, ValidationError

from headgate.client.calls import segment

F = TypeVar("F", bound=Callable[..., "ToolRequest"])

WAIT_MS_MAX = 60_000
ITEMS_MAX = 100
"""Entries, ids, streams or groups of one call."""

Name = Annotated[str, Field(min_length=1, max_length=256)]
Text = Annotated[str, Field(max_length=256)]
LongText = Annotated[str, Field(max_length=2_000)]
Key = Annotated[str, Field(pattern=r"^[!-~]{1,256}$")]
Count = Annotated[int, Field(ge=0)]
Limit = Annotated[int, Field(ge=1, le=ITEMS_MAX)]
WaitMs = Annotated[int, Field(ge=0, le=WAIT_MS_MAX)]
Ids = Annotated[list[Text], Field(min_length=1, max_length=ITEMS_MAX)]
FieldTexts = Annotated[dict[str, str], Field(min_length=1, max_length=1_000)]
Order = Literal["asc", "desc"]
Mode = Literal["fail", "fatal", "silent"]

_DESCRIPTIONS = {
    "stream": "Name of the stream.",
    "group": "Name of the group.",
    "consumer": "Name of the consumer: you. Use the same name for all calls of a task.",
    "list_pending.consumer": "List only the entries of this consumer.",
    "prefix": "List only streams whose names start with this.",
    "limit": "Return at most this many.",
    "cursor": "`next_cursor` of the previous page.",
    "fields": "Names and values of the entry. Values are text.",
    "create_stream": "Create the stream if it does not exist.",
    "idempotency_key": "A repeated call with the same key appends nothing and returns the same id.",
    "start": "From this id. `-`: the first one; `(id`: after the id.",
    "end": "To this id. `+`: the last one; `(id`: before the id.",
    "order": "`desc`: newest first.",
    "filter": 'Return only entries that match, such as {"exact": {"sku": "42"}}. Instead of '
    "`exact`: `prefix`, `suffix`, `present`, `range`, `all`, `any`, `not`.",
    "after": "Return entries after this id. `$`: from now on; `0`: all.",
    "wait_ms": "Wait this long for an entry if there is none yet.",
    "max_length": "Keep this many of the newest entries.",
    "min_id": "Instead: keep this id and later ones.",
    "confirm": "Set it to true only after the user has agreed to this deletion.",
    "create_group.start": "`0`: deliver all entries; `$`: those from now on; or after this id.",
    "min_idle_ms": "List only entries that have been idle this long.",
    "claim_idle_ms": "First claim entries that have been idle with any consumer for this long.",
    "own_pending": "Return the entries that this consumer already holds, and no new ones.",
    "ids": "Ids of entries.",
    "mode": "`fail` counts the delivery as failed; `fatal` makes the entry a dead letter now; "
    "`silent` does not count the delivery.",
    "delay_ms": "Deliver the entries again after this time.",
    "error": "Why you could not process them.",
    "redrive_dead_letters.ids": "Ids in the dead letter stream. Default: the oldest ones.",
}
"""Descriptions of parameters; `tool.parameter` if the parameter of a tool differs."""


class ToolRequest(NamedTuple):
    """A request of the HTTP API; its parts are the arguments of `AsyncClient.request`."""

    method: str
    path: str
    query: Mapping[str, Any] = {}
    body: Any = None
    headers: Mapping[str, str] = {}
    wait_ms: int = 0
    is_repeatable: bool | None = None


class ToolRefused(Exception):
    """A tool was called with bad arguments or without a confirmation, or returns too much."""


_READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
_CHANGES = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False
)
_SETS = _CHANGES.model_copy(update={"idempotent_hint": True})
_DESTROYS = _SETS.model_copy(update={"destructive_hint": True})

TOOLS: dict[str, Tool] = {}
_arguments: dict[str, TypeAdapter[ToolRequest]] = {}


def _tool(annotations: ToolAnnotations) -> Callable[[F], F]:
    def declare(function: F) -> F:
        name, validated = function.__name__, cast(Any, function)
        _arguments[name] = TypeAdapter(validated)
        schema = _arguments[name].json_schema()
        for parameter, described in schema["properties"].items():
            own = f"{name}.{parameter}"
            del described["title"]
            described["description"] = _DESCRIPTIONS.get(own) or _DESCRIPTIONS[parameter]
        TOOLS[name] = Tool(
            name=name,
            title=name.replace("_", " ").capitalize(),
            description=" ".join((function.__doc__ or "").split()),
            input_schema=schema,
            annotations=annotations,
        )
        return function

    return declare


def request_of(tool: str, arguments: Mapping[str, Any]) -> ToolRequest:
    """Return the request that a call of a tool makes.

    Raises KeyError if there is no such tool, and ToolRefused.
    """
    try:
        return _arguments[tool].validate_python(dict(arguments))
    except ValidationError as error:
        faults = [(".".join(map(str, each["loc"])), each["msg"]) for each in error.errors()[:10]]
        text = "; ".join(f"{where}: {fault}" for where, fault in faults)
        raise ToolRefused(f"Invalid arguments: {text}") from None


def _check(*, confirm: bool, act: str) -> None:
    """Raise ToolRefused unless the act is confirmed."""
    if not confirm:
        raise ToolRefused(
            f"Nothing was changed. This would {act}, and cannot be undone. If the user agrees, "
            "call the tool again with confirm: true."
        )


def _path(stream: str, group: str | None = None) -> str:
    path = f"/v1/streams/{segment(stream)}"
    return path if group is None else f"{path}/groups/{segment(group)}"


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


# Streams


@_tool(_READS)
def list_streams(
    prefix: Text = "", limit: Limit = ITEMS_MAX, cursor: LongText | None = None
) -> ToolRequest:
    """List the streams that you may read, with their lengths and last ids."""
    return ToolRequest("GET", "/v1/streams", _given(prefix=prefix, limit=limit, cursor=cursor))


@_tool(_READS)
def describe_stream(stream: Name) -> ToolRequest:
    """Describe a stream: its length, first and last entry, settings and number of groups."""
    return ToolRequest("GET", _path(stream))


@_tool(_CHANGES)
def append_entry(
    stream: Name, fields: FieldTexts, create_stream: bool = True, idempotency_key: Key | None = None
) -> ToolRequest:
    """Append an entry to a stream, and return its id."""
    body = {"fields": fields, "create_stream": create_stream}
    headers = {} if idempotency_key is None else {"Idempotency-Key": idempotency_key}
    path = f"{_path(stream)}/entries"
    return ToolRequest("POST", path, body=body, headers=headers, is_repeatable=bool(headers))


@_tool(_READS)
def read_entries(
    stream: Name,
    start: Text = "-",
    end: Text = "+",
    order: Order = "asc",
    limit: Limit = 20,
    filter: dict[str, Any] | None = None,  # noqa: A002
) -> ToolRequest:
    """Read a range of entries of a stream.

    Ids start with the time in milliseconds since 1970, so a range of ids is also a range of time.
    To go on, call again with `start` set to `(` and `next_after`, or with order `desc` with `end`
    set to `(` and `next_before`.
    """
    wanted = None if filter is None else json.dumps(filter)
    query = _given(start=start, end=end, order=order, limit=limit, filter=wanted)
    return ToolRequest("GET", f"{_path(stream)}/entries", query)


@_tool(_READS)
def follow_stream(
    stream: Name,
    after: Text = "$",
    limit: Limit = 20,
    wait_ms: WaitMs = 20_000,
    filter: dict[str, Any] | None = None,  # noqa: A002
) -> ToolRequest:
    """Wait for new entries of a stream.

    To follow the stream without gaps, call again with `after` set to `next_after`, also if no entry
    came. This does not need a group and changes nothing.
    """
    wanted = None if filter is None else json.dumps(filter)
    query = _given(after=after, limit=limit, wait_ms=wait_ms, filter=wanted)
    return ToolRequest("GET", f"{_path(stream)}/entries", query, wait_ms=wait_ms)


@_tool(_DESTROYS)
def trim_stream(
    stream: Name, max_length: Count | None = None, min_id: Text | None = None, confirm: bool = False
) -> ToolRequest:
    """Delete the oldest entries of a stream. Give `max_length` or `min_id`."""
    if (max_length is None) != (min_id is None):  # or else the gateway refuses it
        kept = f"the newest {max_length}" if min_id is None else f"those from {min_id} on"
        _check(confirm=confirm, act=f"delete all entries of the stream {stream!r} but {kept}")
    body = {"max_length": max_length, "min_id": min_id}
    return ToolRequest("POST", f"{_path(stream)}/trim", body=body, is_repeatable=True)


@_tool(_DESTROYS)
def delete_stream(stream: Name, confirm: bool = False) -> ToolRequest:
    """Delete a stream with all of its entries and groups."""
    act = f"delete the stream {stream!r} with all of its entries and groups"
    _check(confirm=confirm, act=act)
    return ToolRequest("DELETE", _path(stream))


# Groups


@_tool(_READS)
def list_groups(
    stream: Name, limit: Limit = ITEMS_MAX, cursor: LongText | None = None
) -> ToolRequest:
    """List the groups of a stream with their lag and number of pending entries."""
    return ToolRequest("GET", f"{_path(stream)}/groups", _given(limit=limit, cursor=cursor))


@_tool(_READS)
def describe_group(stream: Name, group: Name) -> ToolRequest:
    """Describe a group: position, lag, number of pending entries and of consumers, and policy.

    The lag is the number of entries that the group has not read yet. The policy names the stream of
    its dead letters.
    """
    return ToolRequest("GET", _path(stream, group))


@_tool(_READS)
def list_pending(
    stream: Name,
    group: Name,
    consumer: Name | None = None,
    min_idle_ms: Count = 0,
    start: Text = "-",
    limit: Limit = 20,
) -> ToolRequest:
    """List the pending entries of a group: delivered to a consumer, but not acknowledged.

    Each has its consumer, idle time, number of deliveries and last error.
    """
    query = _given(consumer=consumer, min_idle_ms=min_idle_ms, start=start, limit=limit)
    return ToolRequest("GET", f"{_path(stream, group)}/pending", query)


@_tool(_SETS)
def create_group(
    stream: Name, group: Name, start: Text = "$", create_stream: bool = False
) -> ToolRequest:
    """Create a group, which delivers each entry of a stream to one of its consumers."""
    body = {"start": start, "create_stream": create_stream}
    return ToolRequest("PUT", _path(stream, group), body=body)


# Deliveries


@_tool(_CHANGES)
def read_group(
    stream: Name,
    group: Name,
    consumer: Name,
    limit: Limit = 10,
    wait_ms: WaitMs = 0,
    claim_idle_ms: Count | None = None,
    own_pending: bool = False,
) -> ToolRequest:
    """Take entries of a group to process them.

    Process each entry, then call ack_entries; if you cannot process it, call nack_entries. Until
    then the entry is pending with your consumer. If it takes long, call extend_entries, or another
    consumer may claim the entry. `state` tells why there are no entries.
    """
    body = _given(limit=limit, wait_ms=wait_ms, claim_idle_ms=claim_idle_ms)
    body |= {"from": "0"} if own_pending else {}
    path, query = f"{_path(stream, group)}/read", {"consumer": consumer}
    return ToolRequest("POST", path, query, body, wait_ms=wait_ms)


@_tool(_SETS)
def ack_entries(stream: Name, group: Name, consumer: Name, ids: Ids) -> ToolRequest:
    """Acknowledge entries that you have processed. The group does not deliver them again.

    Returns an outcome per id: `acked`, `not_pending`, or `claimed` if another consumer has it now.
    """
    path, query = f"{_path(stream, group)}/ack", {"consumer": consumer}
    return ToolRequest("POST", path, query, {"ids": ids}, is_repeatable=True)


@_tool(_CHANGES)
def nack_entries(
    stream: Name,
    group: Name,
    consumer: Name,
    ids: Ids,
    mode: Mode = "fail",
    delay_ms: Count | None = None,
    error: LongText | None = None,
) -> ToolRequest:
    """Give entries back that you could not process. The group delivers them again.

    Returns an outcome per id.
    """
    path, query = f"{_path(stream, group)}/nack", {"consumer": consumer}
    body = _given(ids=ids, mode=mode, delay_ms=delay_ms, error=error)
    return ToolRequest("POST", path, query, body)


@_tool(_SETS)
def extend_entries(stream: Name, group: Name, consumer: Name, ids: Ids) -> ToolRequest:
    """Restart the idle time of entries that you are still processing.

    Returns an outcome per id: `claimed` if another consumer has it now.
    """
    path, query = f"{_path(stream, group)}/extend", {"consumer": consumer}
    return ToolRequest("POST", path, query, {"ids": ids}, is_repeatable=True)


@_tool(_CHANGES)
def redrive_dead_letters(
    stream: Name, group: Name, ids: Ids | None = None, limit: Limit = 20
) -> ToolRequest:
    """Send dead letters of a group back, so that it delivers them again.

    The group's policy names the dead letter stream (describe_group); read_entries shows its entries
    with the reason and the last error.
    """
    body = {"limit": limit} if ids is None else {"ids": ids}
    return ToolRequest("POST", f"{_path(stream, group)}/dead-letters/redrive", body=body)
