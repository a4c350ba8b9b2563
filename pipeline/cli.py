"""The command line: `headgate-pipeline <job>`."""

from __future__ import annotations

import importlib
from typing import Any

import click

from headgate.pipeline.terminal.report import message_of

_JOBS = {
    "archive": "Write streams into the lake, each entry exactly once.",
    "compact": "Make large files of small ones in the lake.",
    "view": "A table with typed columns for each stream of the lake.",
    "iceberg": "The files of the lake as an Iceberg table.",
    "forget": "Take entries out of the lake and its views, for good.",
    "retention": "Take old entries out of the lake and its views.",
    "trim": "Take from streams what the lake verifiably holds.",
    "replay": "Append a range of the lake or of a stream to a stream.",
    "verify": "Compare streams with the lake, range by range.",
    "head": "The first or the last entries, as a table.",
    "sample": "Random entries, as a table.",
    "schema": "The fields of entries: types, share of nulls, examples.",
    "stats": "Rates, sizes and values of fields, by window of time.",
    "lag": "The lag of groups, and the ages of their pending entries.",
    "deadletters": "Dead letters as a table; send them back.",
    "changes": "The latest state by key, from a stream of changes.",
    "plot": "A picture of a stream: one HTML file.",
    "doctor": "What is wrong with this installation, and what mends it.",
}

_HELP = """\
Streams in bulk, on Spark.

\b
What is missing here:     headgate-pipeline doctor
Archive a stream:         headgate-pipeline archive --streams orders --lake lake
Is it all there:          headgate-pipeline verify --streams orders --lake lake
Make room:                headgate-pipeline trim --streams orders --lake lake
"""


class _Jobs(click.Group):
    """Import a job only when it is needed, so that help works without Spark."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(_JOBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _JOBS:
            return None
        try:
            command = importlib.import_module(f"headgate.pipeline.jobs.{cmd_name}").main
        except ImportError as error:
            raise click.ClickException(
                f"{error.name or error} is missing: pip install -e '.[spark]'; "
                "`headgate-pipeline doctor` says what else is"
            ) from None
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Jobs"):
            formatter.write_dl(list(_JOBS.items()))

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            raise click.ClickException(message_of(error)) from error


@click.group(
    cls=_Jobs,
    help=_HELP,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="headgate")
def main() -> None:
    """Run the command line."""


if __name__ == "__main__":
    main()
