"""What each command says of itself, and completes."""

import json
from collections.abc import Iterator

import click
import pytest

from headgate.app.cli.commands import main
from tests.api.commands.command_line import at_once
from tests.api.conftest import Live


def commands(command: click.Command, words: list[str]) -> Iterator[tuple[str, click.Command]]:
    """Yield what can be called, with its words."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            subcommand = command.get_command(context, name)
            assert subcommand is not None
            yield from commands(subcommand, [*words, name])
    else:
        yield " ".join(words), command


COMMANDS = dict(commands(main, ["headgate"]))

WITHOUT_JSON = {
    "asyncapi", "check", "check-config", "completion", "delete", "openapi", "revoke", "rotate",
    "serve", "add",
}  # fmt: skip
"""They print nothing, or what is a document, a script or a key already."""


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_an_example(name: str) -> None:
    command = COMMANDS[name]

    _, _, text = command.get_help(click.Context(command, info_name=name)).partition("\n")

    assert f"{name} " in f"{text} ".replace("\n", " ")


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_speaks_json(name: str) -> None:
    has_json = any("--json" in param.opts for param in COMMANDS[name].params)

    assert has_json or name.rpartition(" ")[2] in WITHOUT_JSON


async def test_groups_are_completed(live: Live) -> None:
    await live.append("orders", "1")
    for name in ("billing", "mail", "books"):
        await live.create_group("orders", name)

    variables = {
        "_HEADGATE_COMPLETE": "bash_complete",
        "COMP_WORDS": "headgate pending orders b",
        "COMP_CWORD": "3",
    }
    ended = await at_once(live.url, **variables)

    assert sorted(line.removeprefix("plain,") for line in ended.lines) == ["billing", "books"]


async def test_health_is_told_as_json(live: Live) -> None:
    ended = await at_once(live.url, "health", "--json")

    assert json.loads(ended.output) == {"status": "ok"}
