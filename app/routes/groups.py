"""Groups and their consumers: create, describe, change, delete."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response

from headgate.app.auth.grants import Verb
from headgate.app.auth.needs import needs
from headgate.app.automation.push_states import group_described, group_wire_of
from headgate.app.http.answers import array_in_turns, json_answer
from headgate.app.http.dependencies import (
    AccessDep,
    ConsumerPathDep,
    GroupDep,
    PageDep,
    StreamDep,
    ToolsDep,
)
from headgate.app.http.operation import Operation, PatchOperation
from headgate.app.wire.descriptions import consumer_wire, keys_wire
from headgate.app.wire.problems import GatewayError, responses
from headgate.app.wire.schemas.streams import (
    Consumers,
    DeletedConsumer,
    Group,
    GroupConsumer,
    GroupInput,
    GroupKeyList,
    GroupPatch,
    Groups,
)
from headgate.engine.errors import GroupNotFound
from headgate.engine.requests.groups import (
    CreateConsumer,
    CreateGroup,
    DeleteConsumer,
    DescribeGroup,
    DestroyGroup,
    KeyOrder,
    ListConsumers,
    ListGroups,
    ListKeys,
)

router = APIRouter(prefix="/v1/streams/{stream}", tags=["Groups"], route_class=Operation)
patches = APIRouter(prefix="/v1/streams/{stream}", tags=["Groups"], route_class=PatchOperation)

_FIND = responses("stream_not_found", "group_not_found", "invalid_request")
_CHANGE = responses(
    "malformed",
    "invalid_id",
    "stream_not_found",
    "group_not_found",
    "unsupported_media_type",
    "invalid_request",
)


@router.put(
    "/groups/{group}",
    operation_id="createGroup",
    status_code=201,
    responses={
        200: {
            "description": "The group already existed with this policy and was not changed.",
            "model": Group,
        },
        **_CHANGE,
        **responses("group_exists", "limit_reached", "memory_full", "not_supported"),
    },
)
@needs(Verb.MANAGE)
async def create_group(
    access: AccessDep,
    tools: ToolsDep,
    stream: StreamDep,
    group: GroupDep,
    response: Response,
    new: GroupInput | None = None,
) -> Group:
    """Create a group (XGROUP CREATE). A group that already exists keeps its position.

    The status is 201 for a new group and 200 for an existing one. If the group exists with a
    different policy, the status is 409.
    """
    new = new or GroupInput()
    created = await access.perform(
        CreateGroup(
            stream, group, new.to_start(), create_stream=new.create_stream, policy=new.to_policy()
        )
    )
    response.status_code = 201 if created.is_new else 200
    return await group_described(access, tools, stream, created.info)


@patches.patch(
    "/groups/{group}", operation_id="updateGroup", responses=_CHANGE | responses("not_supported")
)
@needs(Verb.MANAGE)
async def update_group(
    access: AccessDep, tools: ToolsDep, stream: StreamDep, group: GroupDep, patch: GroupPatch
) -> Group:
    """Move the position of a group (XGROUP SETID), forward or back, or change its policy.

    Pending entries stay pending.
    """
    info = await access.perform(patch.to_request(stream, group))
    return await group_described(access, tools, stream, info)


@router.get(
    "/groups",
    operation_id="listGroups",
    response_model=Groups,
    responses=responses("stream_not_found", "invalid_request"),
)
@needs(Verb.READ, Verb.MANAGE)
async def list_groups(
    access: AccessDep, tools: ToolsDep, stream: StreamDep, page: PageDep
) -> Response:
    """List the groups of a stream by name (XINFO GROUPS)."""
    infos, next_cursor = page.of(await access.perform(ListGroups(stream, **page.with_one_more)))
    wire = await group_wire_of(access, tools, stream, infos)
    groups: Groups = {"groups": await array_in_turns(infos, wire), "next_cursor": next_cursor}
    return json_answer(groups)


@router.get("/groups/{group}", operation_id="describeGroup", responses=_FIND)
@needs(Verb.READ, Verb.CONSUME, Verb.MANAGE)
async def describe_group(
    access: AccessDep, tools: ToolsDep, stream: StreamDep, group: GroupDep
) -> Group:
    """Describe a group. The `verdict` tells whether it needs attention, and `reasons` why."""
    info = await access.perform(DescribeGroup(stream, group))
    return await group_described(access, tools, stream, info)


@router.delete("/groups/{group}", operation_id="deleteGroup", status_code=204, responses=_FIND)
@needs(Verb.MANAGE)
async def delete_group(access: AccessDep, stream: StreamDep, group: GroupDep) -> None:
    """Delete a group and its pending entries (XGROUP DESTROY). Blocked readers are notified."""
    if not await access.perform(DestroyGroup(stream, group)):
        raise GroupNotFound(stream, group)


@router.get(
    "/groups/{group}/keys",
    operation_id="listGroupKeys",
    responses=_FIND | responses("not_supported"),
)
@needs(Verb.READ, Verb.CONSUME, Verb.MANAGE)
async def list_keys(
    access: AccessDep,
    stream: StreamDep,
    group: GroupDep,
    order: Annotated[
        KeyOrder,
        Query(
            description="`waiting`: keys with the most waiting entries first. `age`: keys with "
            "the oldest waiting entry first."
        ),
    ] = KeyOrder.WAITING,
    limit: Annotated[int, Query(ge=1, le=1000, description="Maximum number of keys.")] = 100,
) -> GroupKeyList:
    """List the keys of a fair group, with their waiting entries, waiting times and shares.

    A group without `fair_field` has no keys. Keys without waiting entries come last; they are
    listed if they had a share of the last minute. If there are more than 100,000 keys, only those
    that have waited the longest are examined.
    """
    return keys_wire(await access.perform(ListKeys(stream, group, order, limit)))


@router.get(
    "/groups/{group}/consumers",
    operation_id="listConsumers",
    response_model=Consumers,
    responses=_FIND,
)
@needs(Verb.READ, Verb.CONSUME, Verb.MANAGE)
async def list_consumers(
    access: AccessDep, stream: StreamDep, group: GroupDep, page: PageDep
) -> Response:
    """List the consumers of a group by name (XINFO CONSUMERS)."""
    infos, next_cursor = page.of(
        await access.perform(ListConsumers(stream, group, **page.with_one_more))
    )
    consumers: Consumers = {
        "consumers": await array_in_turns(infos, consumer_wire),
        "next_cursor": next_cursor,
    }
    return json_answer(consumers)


@router.put(
    "/groups/{group}/consumers/{consumer}",
    operation_id="createConsumer",
    status_code=201,
    responses={
        200: {"description": "The consumer already existed.", "model": GroupConsumer},
        **_FIND,
        **responses("limit_reached"),
    },
)
@needs(Verb.MANAGE)
async def create_consumer(
    access: AccessDep,
    stream: StreamDep,
    group: GroupDep,
    consumer: ConsumerPathDep,
    response: Response,
) -> GroupConsumer:
    """Create a consumer (XGROUP CREATECONSUMER). Its first read also creates it."""
    created = await access.perform(CreateConsumer(stream, group, consumer))
    response.status_code = 201 if created.is_new else 200
    return consumer_wire(created.info)


@router.delete(
    "/groups/{group}/consumers/{consumer}",
    operation_id="deleteConsumer",
    responses=responses("stream_not_found", "group_not_found", "not_found", "invalid_request"),
)
@needs(Verb.MANAGE)
async def delete_consumer(
    access: AccessDep,
    stream: StreamDep,
    group: GroupDep,
    consumer: ConsumerPathDep,
    pending: Annotated[
        Literal["release", "drop"],
        Query(
            description="`release`: other consumers get the entries that it holds. `drop`: they "
            "are no longer pending, as in Redis."
        ),
    ] = "release",
) -> DeletedConsumer:
    """Delete a consumer (XGROUP DELCONSUMER). By default, its entries are released."""
    held = await access.perform(
        DeleteConsumer(stream, group, consumer, release=pending == "release")
    )
    if held is None:
        raise GatewayError("not_found", "The group has no such consumer.", pointer="/path/consumer")
    return DeletedConsumer(pending=held)
