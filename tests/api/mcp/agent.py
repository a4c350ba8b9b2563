"""An agent: the SDK's own client, over HTTP or with `headgate mcp` as its server."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, TextContent

from tests.api.commands.command_line import HEADGATE, environment


class Agent:
    """Calls tools, and knows which it has called."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.called: set[str] = set()

    async def answer(self, tool: str, **arguments: Any) -> tuple[bool, str]:
        """Call a tool; returns whether that has failed, and the text."""
        self.called.add(tool)
        result = await self.client.call_tool(tool, arguments)
        assert isinstance(result, CallToolResult)
        [content] = result.content
        assert isinstance(content, TextContent)
        assert "Traceback" not in content.text
        return result.is_error, content.text

    async def call(self, tool: str, **arguments: Any) -> Any:
        """Call a tool, which must not fail."""
        is_error, text = await self.answer(tool, **arguments)
        assert not is_error, text
        return json.loads(text)

    async def refusal(self, tool: str, **arguments: Any) -> str:
        """Call a tool, which must fail; returns what the agent is told."""
        is_error, text = await self.answer(tool, **arguments)
        assert is_error, text
        return text

    async def append(self, stream: str, *values: str) -> list[str]:
        """Append entries with one field `v` each; returns their ids."""
        calls = [await self.call("append_entry", stream=stream, fields={"v": v}) for v in values]
        return [call["id"] for call in calls]


@asynccontextmanager
async def over_http(
    url: str, token: str | None = None, *, mode: str = "auto"
) -> AsyncIterator[Agent]:
    """Connect to `/mcp` of a gateway."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
        transport = streamable_http_client(f"{url}/mcp", http_client=http)
        async with Client(transport, mode=mode) as client:
            yield Agent(client)


@asynccontextmanager
async def over_stdio(url: str, token: str = "") -> AsyncIterator[Agent]:
    """Start `headgate mcp` for a gateway."""
    command, *words = HEADGATE
    variables = environment(url, HEADGATE_TOKEN=token)
    server = StdioServerParameters(command=command, args=[*words, "mcp"], env=variables)
    async with Client(stdio_client(server)) as client:
        yield Agent(client)
