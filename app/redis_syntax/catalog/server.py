"""Commands about the server: its identity, its settings, its saves."""

from __future__ import annotations

from functools import partial
from typing import Final

from headgate.app.redis_syntax.catalog.description import Catalog, Description, container, help_of

_command = partial(Description, group="server")
_operation = partial(Description, group="server", flags="admin noscript loading stale")
_saving = partial(Description, group="server", flags="admin noscript no_async_loading")
_about_commands = partial(
    Description, group="server", flags="loading stale", categories="connection"
)

_CHANGING: Final = "nondeterministic_output"
_UNORDERED: Final = "nondeterministic_output_order"
_EVERYWHERE: Final = "request_policy:all_shards response_policy:all_succeeded"
_EACH_COMMAND: Final = "O(N) for N commands."
_EACH_SETTING: Final = "O(N) for N settings."
_EACH_KEY: Final = "O(N) for N keys that there are."

_COMMANDS: Catalog = {
    "command": _about_commands(
        "Describe all commands.", "2.8.13", tips=_UNORDERED, complexity=_EACH_COMMAND
    ),
    "command|count": _about_commands("Return how many commands there are.", "2.8.13"),
    "command|list": _about_commands(
        "Return the names of commands.",
        "7.0.0",
        usage="[FILTERBY/filterby(MODULE/module-name | ACLCAT/category | PATTERN/pattern:pattern)]",
        tips=_UNORDERED,
        complexity=_EACH_COMMAND,
    ),
    "command|info": _about_commands(
        "Describe commands for clients: words, flags, places of keys.",
        "2.8.13",
        usage="[command-name...]",
        tips=_UNORDERED,
        complexity=_EACH_COMMAND,
    ),
    "command|docs": _about_commands(
        "Describe commands for people: what they do, and their arguments.",
        "7.0.0",
        usage="[command-name...]",
        tips=_UNORDERED,
        complexity=_EACH_COMMAND,
    ),
    "command|getkeys": _about_commands(
        "Return the keys among the words of a command.",
        "2.8.13",
        usage="command [arg...]",
        complexity="O(N) for N words.",
    ),
    "command|getkeysandflags": _about_commands(
        "Return the keys among the words of a command, and what it does with them.",
        "7.0.0",
        usage="command [arg...]",
        complexity="O(N) for N words.",
    ),
    "command|help": help_of("COMMAND", "5.0.0", "server", "connection"),
}

_SETTINGS: Catalog = {
    "info": _command(
        "Return facts and counters of the server, by section.",
        "1.0.0",
        usage="[section...]",
        flags="loading stale",
        categories="dangerous",
        tips=f"{_CHANGING} request_policy:all_shards response_policy:special",
    ),
    "config": container("for settings", "2.0.0", "server"),
    "config|get": _operation(
        "Return settings whose names match patterns.",
        "2.0.0",
        usage="parameter(parameter)...",
        complexity=_EACH_SETTING,
    ),
    "config|set": _operation(
        "Change settings.",
        "2.0.0",
        usage="parameter_value(parameter value)...",
        tips="request_policy:all_nodes response_policy:all_succeeded",
        complexity=_EACH_SETTING,
    ),
    "config|resetstat": _operation("Set the counters of INFO to 0.", "2.0.0"),
    "config|help": help_of("CONFIG", "5.0.0", "server"),
    "time": _command(
        "Return the unix time, in seconds and microseconds.",
        "2.6.0",
        flags="loading stale fast",
        tips=_CHANGING,
    ),
}

_CONTENTS: Catalog = {
    "dbsize": _command(
        "Return how many keys there are.",
        "1.0.0",
        flags="readonly fast",
        categories="keyspace",
        tips="request_policy:all_shards response_policy:agg_sum",
    ),
    **{
        name: _command(
            "Remove all keys.",
            "1.0.0",
            usage="[async(ASYNC@4.0.0 | SYNC@6.2.0)]",
            flags="write",
            categories="keyspace dangerous",
            tips=_EVERYWHERE,
            complexity=_EACH_KEY,
        )
        for name in ("flushall", "flushdb")
    },
    "save": _saving(
        "The same as BGSAVE, and wait until it has ended.",
        "1.0.0",
        flags="admin noscript no_async_loading no_multi",
        complexity=_EACH_KEY,
    ),
    "bgsave": _saving(
        "Begin to replace the history of the journal by a snapshot.",
        "1.0.0",
        usage="[SCHEDULE@3.2.2]",
    ),
    "bgrewriteaof": _saving("The same as BGSAVE: there is one journal.", "1.0.0"),
    "lastsave": _command(
        "Return the unix time of the last snapshot, in seconds.",
        "1.0.0",
        flags="loading stale fast",
        categories="admin dangerous",
        tips=_CHANGING,
    ),
}

_script = partial(Description, group="scripting", categories="scripting")

_SCRIPTS: Catalog = {
    "function": container("for functions", "7.0.0", "scripting"),
    "function|flush": _script(
        "Do nothing: there are no functions.",
        "7.0.0",
        usage="[async(ASYNC | SYNC)]",
        flags="write noscript",
        tips=_EVERYWHERE,
    ),
    "function|help": help_of("FUNCTION", "7.0.0", "scripting", "scripting"),
    "script": container("for scripts", "2.6.0", "scripting"),
    "script|flush": _script(
        "Do nothing: there are no scripts.",
        "2.6.0",
        usage="[async@6.2.0(ASYNC | SYNC)]",
        flags="noscript",
        tips="request_policy:all_nodes response_policy:all_succeeded",
    ),
    "script|help": help_of("SCRIPT", "5.0.0", "scripting", "scripting"),
}

CATALOG: Catalog = {**_COMMANDS, **_SETTINGS, **_CONTENTS, **_SCRIPTS}
