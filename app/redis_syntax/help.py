"""Help: the replies of XGROUP HELP and XINFO HELP."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.app.backends.port import Status
from headgate.app.redis_syntax.words import AnyPlan, Plan
from headgate.engine.requests.keyspace import TellTime

_LINES: dict[bytes, dict[str, str]] = {
    b"XGROUP": {
        "CREATE key group id|$ [MKSTREAM] [ENTRIESREAD n]": "Make a group that reads after an id.",
        "SETID key group id|$ [ENTRIESREAD n]": "Let a group read after another id.",
        "DESTROY key group": "Remove a group with what is pending in it.",
        "CREATECONSUMER key group consumer": "Make a consumer.",
        "DELCONSUMER key group consumer": "Remove a consumer with what is pending with it.",
        "HELP": "Say this.",
    },
    b"XINFO": {
        "STREAM key [FULL [COUNT n]]": "Tell about a stream; with FULL also what is in it.",
        "GROUPS key": "Tell about the groups of a stream.",
        "CONSUMERS key group": "Tell about the consumers of a group.",
        "HELP": "Say this.",
    },
}


def help_(words: Sequence[bytes]) -> AnyPlan:
    """XGROUP HELP, XINFO HELP."""
    name = words[0].upper()
    lines = [f"{name.decode()} <subcommand> [<argument> ...]. Subcommands are:"]
    for usage, meaning in _LINES[name].items():
        lines += [usage, f"    {meaning}"]
    return Plan(TellTime(), lambda _: list(map(Status, lines)))
