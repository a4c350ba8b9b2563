"""Tools and resources, over each transport and in each age of the protocol."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from urllib.parse import quote

import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import ReadResourceResult, TextResourceContents

from headgate.app.mcp.server import ANSWER_BYTES_MAX
from headgate.app.mcp.tools import TOOLS
from tests.api.conftest import Live
from tests.api.mcp.agent import Agent, over_http, over_stdio

WAYS: dict[str, Callable[[str], AbstractAsyncContextManager[Agent]]] = {
    "http": over_http,
    "http_2025": partial(over_http, mode="legacy"),
    "stdio": over_stdio,
}
DESTRUCTIVE = {"delete_stream", "trim_stream"}
IDEMPOTENT = DESTRUCTIVE | {"ack_entries", "create_group", "extend_entries"}


PLACE = {"stream": "orders", "group": "billing"}
MINE, OTHER = {**PLACE, "consumer": "me"}, {**PLACE, "consumer": "other"}


@pytest.mark.parametrize("way", WAYS)
async def test_each_tool_does_what_it_says(live: Live, way: str) -> None:
    async with WAYS[way](live.url) as agent:
        first, second = await agent.append("orders", "a", "b")
        await read_streams(agent, first, second)
        await take_entries(agent, first, second)
        await settle(live, agent, first, second)
        await destroy(agent)
        await check_descriptions(agent)


async def read_streams(agent: Agent, first: str, second: str) -> None:
    streams = (await agent.call("list_streams"))["streams"]
    assert [each["name"] for each in streams] == ["orders"]
    assert (await agent.call("describe_stream", stream="orders"))["length"] == 2
    read = await agent.call("read_entries", stream="orders", order="desc", limit=1)
    assert read["entries"] == [{"id": second, "fields": {"v": "b"}}]
    read = await agent.call("read_entries", stream="orders", filter={"exact": {"v": "a"}})
    assert [entry["id"] for entry in read["entries"]] == [first]
    read = await agent.call("follow_stream", stream="orders", after=first)
    assert [entry["id"] for entry in read["entries"]] == [second]


async def take_entries(agent: Agent, first: str, second: str) -> None:
    assert (await agent.call("create_group", **PLACE, start="0"))["lag"] == 2
    read = await agent.call("read_group", **MINE, limit=1)
    assert [entry["id"] for entry in read["entries"]] == [first]
    assert (await agent.call("describe_group", **PLACE))["pending"] == 1
    groups = (await agent.call("list_groups", stream="orders"))["groups"]
    assert [(each["name"], each["lag"]) for each in groups] == [("billing", 1)]
    pending = (await agent.call("list_pending", **MINE))["pending"]
    assert [(each["id"], each["deliveries"]) for each in pending] == [(first, 1)]
    done = await agent.call("extend_entries", **MINE, ids=[first])
    assert done["results"] == [{"id": first, "outcome": "extended"}]
    done = await agent.call("nack_entries", **MINE, ids=[first], error="no stock")
    assert done["results"] == [{"id": first, "outcome": "released"}]
    read = await agent.call("read_group", **MINE, limit=1)
    assert [each["last_error"] for each in read["entries"]] == ["no stock"]
    read = await agent.call("read_group", **OTHER, claim_idle_ms=0)
    assert [each.get("claimed_from") for each in read["entries"]] == ["me", None]
    held = (await agent.call("read_group", **OTHER, own_pending=True))["entries"]
    assert [each["id"] for each in held] == [first, second]


async def settle(live: Live, agent: Agent, first: str, second: str) -> None:
    done = await agent.call("ack_entries", **MINE, ids=[first])
    assert done["results"] == [{"id": first, "outcome": "claimed"}]
    done = await agent.call("ack_entries", **OTHER, ids=[first])
    assert done["results"] == [{"id": first, "outcome": "acked"}]
    policy = {"policy": {"max_deliveries": 1, "dead_letter_stream": "dead"}}
    await live.ask("PATCH /v1/streams/orders/groups/billing", policy)
    await agent.call("nack_entries", **OTHER, ids=[second], mode="fatal")
    results = (await agent.call("redrive_dead_letters", **PLACE))["results"]
    assert [(each["entry_id"], each["outcome"]) for each in results] == [(second, "released")]


async def destroy(agent: Agent) -> None:
    trim = {"stream": "orders", "max_length": 1}
    assert "but the newest 1" in await agent.refusal("trim_stream", **trim)
    assert (await agent.call("describe_stream", stream="orders"))["length"] == 2
    assert (await agent.call("trim_stream", **trim, confirm=True))["removed"] == 1
    assert "confirm: true" in await agent.refusal("delete_stream", stream="orders")
    await agent.call("delete_stream", stream="orders", confirm=True)
    assert "stream_not_found" in await agent.refusal("describe_stream", stream="orders")


async def check_descriptions(agent: Agent) -> None:
    listed = {tool.name: tool for tool in (await agent.client.list_tools()).tools}
    assert agent.called == set(listed) == set(TOOLS)
    for name, tool in listed.items():
        hints = tool.annotations
        assert hints is not None
        is_read = name.startswith(("list_", "describe_", "read_entries", "follow_"))
        assert hints.read_only_hint is is_read
        assert bool(hints.destructive_hint) is (name in DESTRUCTIVE)
        assert bool(hints.idempotent_hint) is (name in IDEMPOTENT)
        assert all("description" in each for each in tool.input_schema["properties"].values())


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_streams_are_resources(live: Live, mode: str) -> None:
    async with over_http(live.url, mode=mode) as agent:
        name = "orders é?#"
        await agent.append(name, *map(str, range(21)))
        [resource] = (await agent.client.list_resources()).resources
        assert resource.name == name
        assert resource.uri == f"headgate://streams/{quote(name)}"
        read = await agent.client.read_resource(resource.uri)
        assert isinstance(read, ReadResourceResult)
        [content] = read.contents
        assert isinstance(content, TextResourceContents)
        values = [entry["fields"]["v"] for entry in json.loads(content.text)["entries"]]
        assert values == [str(n) for n in range(20, 0, -1)]
        [template] = (await agent.client.list_resource_templates()).resource_templates
        assert template.uri_template == "headgate://streams/{name}"
        for uri, text in {
            "headgate://streams/none": "stream_not_found",
            "headgate://streams/": "Unknown resource",
            "headgate://streams/a%2Fb": "not_found",
            f"headgate://streams/{'a' * 300}": "at most 256 characters",
            "file:///etc/passwd": "Unknown resource",
        }.items():
            with pytest.raises(MCPError, match=text):
                await agent.client.read_resource(uri)


async def test_a_list_goes_on_behind_its_page(live: Live) -> None:
    for n in range(101):
        await live.append(f"s{n:03}", "1")
    async with over_http(live.url) as agent:
        page = await agent.client.list_resources()
        assert len(page.resources) == 100
        rest = await agent.client.list_resources(cursor=page.next_cursor)
    assert [each.name for each in rest.resources] == ["s100"]
    assert rest.next_cursor is None


async def test_an_append_with_a_key_appends_once(live: Live) -> None:
    async with over_http(live.url) as agent:
        wanted = {"stream": "orders", "fields": {"v": "1"}, "idempotency_key": "k1"}
        first = await agent.call("append_entry", **wanted)
        assert await agent.call("append_entry", **wanted) == first
        fault = await agent.refusal("append_entry", **{**wanted, "idempotency_key": "é\n"})
        assert fault.startswith("Invalid arguments: idempotency_key: ")
        new = {**wanted, "stream": "odrers"}
        assert "stream_not_found" in await agent.refusal("append_entry", **new, create_stream=False)


_CONSUMER = {"group": "g", "consumer": "c"}


async def test_arguments_out_of_their_bounds_are_refused(live: Live) -> None:
    cases: list[tuple[str, dict[str, object], str]] = [
        ("append_entry", {"fields": {"v": 1}}, "fields.v"),
        ("append_entry", {"fields": {}}, "fields"),
        ("append_entry", {"fields": {f"f{n}": "" for n in range(1_001)}}, "fields"),
        ("append_entry", {"fields": {"v": "1"}, "key": "k"}, "key"),
        ("describe_stream", {"stream": ""}, "stream"),
        ("describe_stream", {"stream": "a" * 257}, "stream"),
        ("read_entries", {"limit": 101}, "limit"),
        ("read_entries", {"limit": 0}, "limit"),
        ("read_entries", {"order": "up"}, "order"),
        ("follow_stream", {"wait_ms": 60_001}, "wait_ms"),
        ("list_pending", {"group": "g", "min_idle_ms": -1}, "min_idle_ms"),
        ("read_group", {**_CONSUMER, "limit": 101}, "limit"),
        ("read_group", {**_CONSUMER, "wait_ms": 60_001}, "wait_ms"),
        ("read_group", {"group": "g"}, "consumer"),
        ("ack_entries", {**_CONSUMER, "ids": ["1-1"] * 101}, "ids"),
        ("nack_entries", {**_CONSUMER, "ids": ["1-1"], "error": "e" * 2_001}, "error"),
        ("redrive_dead_letters", {"group": "g", "ids": []}, "ids"),
    ]
    async with over_http(live.url) as agent:
        for tool, arguments, where in cases:
            fault = await agent.refusal(tool, **{"stream": "orders", **arguments})
            assert fault.startswith(f"Invalid arguments: {where}: "), tool


async def test_what_the_gateway_refuses_is_told(live: Live) -> None:
    cases: list[tuple[str, dict[str, object], str]] = [
        ("describe_stream", {"stream": "a/groups/g"}, "invalid_request"),
        ("delete_stream", {"stream": "a/groups/g", "confirm": True}, "invalid_request"),
        ("describe_stream", {"stream": ".."}, "stream_not_found"),
        ("describe_stream", {"stream": "a\n"}, "invalid_request"),
        ("read_entries", {"stream": "a", "start": "x"}, "invalid_id"),
        ("read_entries", {"stream": "a", "filter": {"exactly": {}}}, "invalid_request"),
        ("list_streams", {"cursor": "?"}, "invalid_request"),
        ("trim_stream", {"stream": "a", "confirm": True}, "invalid_request"),
        ("read_group", {**_CONSUMER, "stream": "a", "group": "none"}, "group_not_found"),
    ]
    async with over_http(live.url) as agent:
        await agent.append("a", "1")
        await agent.call("create_group", stream="a", group="g")
        for tool, arguments, code in cases:
            assert (await agent.refusal(tool, **arguments)).startswith(f"{code}: "), tool
        assert (await agent.call("describe_stream", stream="a"))["groups"] == 1
        with pytest.raises(MCPError, match="Unknown tool: drop_everything"):
            await agent.client.call_tool("drop_everything", {})


@pytest.mark.parametrize("way", ["http", "stdio"])
async def test_a_long_answer_is_cut_and_hides_no_delivery(live: Live, way: str) -> None:
    async with WAYS[way](live.url) as agent:
        ids = await live.append("long", *["é" * 20_000] * 9)
        place = {"stream": "long", "group": "g"}
        await agent.call("create_group", **place, start="0")
        seen: list[str] = []
        for _ in ids:
            is_error, text = await agent.answer("read_group", **place, consumer="c")
            assert not is_error
            assert len(text.encode()) <= ANSWER_BYTES_MAX
            seen += [entry["id"] for entry in json.loads(text)["entries"]]
            pending = (await agent.call("list_pending", **place))["pending"]
            assert [each["id"] for each in pending] == seen
        assert seen == ids
        await live.append("longer", "v" * 100_000)
        read = await agent.call("read_entries", stream="longer")
        assert read["cut"].startswith("The answer was too long")
        assert read["entries"][0]["fields"]["v"].endswith("v… (100000 characters)")
        fields = {f"{'n' * 64}{n}": "v" * 100 for n in range(1_000)}
        await live.ask("POST /v1/streams/wide/entries", {"fields": fields})
        read = await agent.call("read_entries", stream="wide")
        assert [set(entry) for entry in read["entries"]] == [{"id"}]


async def test_of_a_huge_answer_only_the_ids_are_told(live: Live) -> None:
    pairs = [["id", "1-1"], ["fields", '[{"id":"2-2","fields":{'], *[["", ""]] * 3_000]
    draft = "POST /v1/streams/a/entries", {"pairs": pairs}
    ids = [(await live.ask(*draft))["id"] for _ in range(9)]
    place = {"stream": "a", "group": "g"}
    async with over_http(live.url) as agent:
        await agent.call("create_group", **place, start="0")
        read = await agent.call("read_group", **place, consumer="c")
        assert read["entries"] == [{"id": entry_id} for entry_id in ids]
        assert read["cut"].startswith("The answer was too long")
