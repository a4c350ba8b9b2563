"""The `headgate` command: its subcommands in sections, each loaded when it is asked for.

Commands that only call a gateway do not import the gateway's own code, so they start several times
faster. A user who presses a key for completion notices that.
"""

import difflib
import gc
from importlib import import_module
from typing import Any

import click

_SECTIONS = {
    "Run a gateway": ["serve", "keys", "check-config", "check", "doctor"],
    "Back up and migrate data": ["backup", "restore", "bucket", "move", "import", "export"],
    "Use a running gateway": ["append", "read", "tail", "stream", "table", "schedule", "health"],
    "Process entries with groups": [
        *("group", "consume", "push", "pending", "ack", "nack", "claim"),
        *("dead-letters", "redrive"),
    ],
    "Transfer files and measure": ["load", "dump", "bench"],
    "Integrate with tools": ["mcp", "completion", "openapi", "asyncapi", "types"],
}

_MODULES = {
    **dict.fromkeys(("append", "read", "tail"), "entries"),
    **dict.fromkeys(("ack", "nack", "claim", "pending", "dead-letters", "redrive"), "deliveries"),
    **dict.fromkeys(("load", "dump"), "tables"),
    **dict.fromkeys(("move", "import", "export"), "move"),
    **dict.fromkeys(("openapi", "asyncapi"), "documents"),
    "restore": "backup",
    "check-config": "check",
}
"""Where a command is, if its file in `commands/` has not its name."""

_INTERRUPTED = 130
"""Exit code, as shells have it: 128 and the number of the signal."""

_SERVER = "Install the extra: pip install -e '.[server]'"

# \b keeps click from filling the paragraph.
_HELP = """\
Headgate: a streaming gateway. Redis Streams over HTTP, SSE and WebSocket.

\b
Start the gateway:  headgate serve
Append an entry:    headgate append orders sku=42
Follow a stream:    headgate tail orders --after 0
First steps, curl:  http://localhost:8080
Guide:              http://localhost:8080/guide
Console:            http://localhost:8080/console
API reference:      http://localhost:8080/docs
Help of a command:  headgate append --help
"""


class Sections(click.Group):
    """Commands in sections; `headgate check-config` is in `commands/check.py`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return [name for names in _SECTIONS.values() for name in names]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        name = cmd_name.replace("-", "_")
        module_name = _MODULES.get(cmd_name, name)
        gc.disable()  # nothing that is loaded is garbage
        try:
            module = import_module(f"headgate.app.cli.commands.{module_name}")
        except ModuleNotFoundError as error:
            if error.name is None or error.name.startswith("headgate"):
                raise
            return _without_gateway(cmd_name, error.name)
        finally:
            gc.enable()
        command: click.Command = getattr(module, f"{name}_command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            close = difflib.get_close_matches(args[0], self.list_commands(ctx), n=1)
            if not close:
                raise
            text = f"{error.message} Did you mean {close[0]!r}?"
            raise click.UsageError(text, ctx) from None

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command. Ctrl-C ends some of them and is no failure."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            ctx.exit(_INTERRUPTED)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, self.list_commands(ctx)))
        for section, names in _SECTIONS.items():
            with formatter.section(section):
                commands = [(name, self.get_command(ctx, name)) for name in names]
                rows = [
                    (name.ljust(width), command.get_short_help_str(100))
                    for name, command in commands
                    if command is not None
                ]
                formatter.write_dl(rows)


def _without_gateway(name: str, package: str) -> click.Command:
    def refuse(**_words: object) -> None:
        raise click.ClickException(
            f"`headgate {name}` requires the gateway, but only its client is installed "
            f"(the package {package} is missing). {_SERVER}"
        )

    return click.Command(
        name,
        callback=refuse,
        short_help="Not installed: requires the extra `server`.",
        params=[click.Argument(["words"], nargs=-1, type=click.UNPROCESSED)],
        context_settings={"ignore_unknown_options": True},
        help=_SERVER,
    )


@click.group(
    cls=Sections,
    help=_HELP,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="headgate", message="%(prog)s %(version)s")
def main() -> None:
    """Run the command line."""
