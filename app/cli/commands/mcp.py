import signal
from importlib.metadata import version

import click

from headgate.app.cli.flags import gateway_command
from headgate.client.client import AsyncClient


@gateway_command(
    "mcp",
    "claude mcp add headgate -- headgate mcp --url http://localhost:8080",
    failed="the extra `mcp` is not installed",
)
async def mcp_command(gateway: AsyncClient) -> None:
    """Let an AI agent use a gateway: serve MCP on standard input and output.

    An agent starts this command by itself. It can do what the key in HEADGATE_TOKEN allows.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a thread reads the input, and would go on
    try:
        from mcp.server.stdio import stdio_server  # noqa: PLC0415  it takes a second

        from headgate.app.mcp.server import AgentServer  # noqa: PLC0415
    except ModuleNotFoundError as error:
        text = f"{error.name} is missing; headgate[mcp] brings it"
        raise click.ClickException(text) from None
    server = AgentServer(gateway, version("headgate")).server
    async with stdio_server() as (received, sent):
        await server.run(received, sent, server.create_initialization_options())
