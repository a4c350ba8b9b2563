"""Own replies: what our commands reply, as a client of a redis-server would see it."""

from __future__ import annotations

from typing import Any

from headgate.app.redis_syntax.command import error_text
from headgate.app.redis_syntax.replies import NULL_ARRAY
from headgate.app.redis_syntax.runs import CommandRunner
from headgate.engine.errors import StreamError
from tests.model.redis_server import RedisError, Words


async def own_reply(runner: CommandRunner, command: Words) -> Any:
    """Run a command; returns its reply or its error."""
    try:
        return plain(await runner.run(command))
    except StreamError as error:
        return plain(error)


def plain(reply: Any) -> Any:
    """Return a reply as it comes by RESP2; clients have one null."""
    if isinstance(reply, StreamError):
        return RedisError(error_text(reply))
    if isinstance(reply, list | tuple):
        return [plain(item) for item in reply]
    return None if reply is NULL_ARRAY else reply
