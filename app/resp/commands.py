"""Commands: all that are about the connection itself, and not about streams."""

from __future__ import annotations

from headgate.app.redis_syntax.catalog import Described, described_commands
from headgate.app.resp import client_commands, handshake, transaction
from headgate.app.resp.session import OwnCommands

OWN: OwnCommands = {**transaction.COMMANDS, **handshake.COMMANDS, **client_commands.COMMANDS}

DESCRIBED: Described = described_commands(OWN, {b"CLIENT": client_commands.SUBCOMMANDS})
