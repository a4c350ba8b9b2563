"""Each command's help and completion."""

import json
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from headgate.app.cli.command_line import main
from tests.api.commands.command_line import headgate
from tests.api.conftest import Live


def commands(command: click.Command, words: list[str]) -> Iterator[tuple[str, click.Command]]:
    """Yield the commands that can be called, with their words."""
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
    "headgate asyncapi": "what it prints is JSON",
    "headgate completion": "what it prints is a script for a shell",
    "headgate openapi": "what it prints is JSON",
    "headgate serve": "it ends when it is told to; its log is lines of JSON",
}


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_an_example(name: str) -> None:
    command = COMMANDS[name]

    _, _, text = command.get_help(click.Context(command, info_name=name)).partition("\n")

    assert f"{name} " in f"{text} ".replace("\n", " ")


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_speaks_json(name: str) -> None:
    has_json = any("--json" in param.opts for param in COMMANDS[name].params)

    assert has_json != (name in WITHOUT_JSON)


def test_only_commands_that_are_there_are_excused_from_json() -> None:
    assert WITHOUT_JSON.keys() <= COMMANDS.keys()


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_says_what_its_exit_codes_mean(name: str) -> None:
    command = COMMANDS[name]
    text = command.get_help(click.Context(command, info_name=name))

    codes = [int(line.split()[0]) for line in text.partition("Exit codes:\n")[2].splitlines()]

    assert codes == sorted(codes)
    assert {0, 2} <= set(codes) <= {0, 1, 2, 130}


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_ends_with_2_if_its_words_make_no_sense(name: str) -> None:
    ended = CliRunner().invoke(main, [*name.split()[1:], "--no-such-flag"])

    assert (ended.exit_code, ended.stdout) == (2, "")


@pytest.mark.parametrize("name", COMMANDS)
def test_each_flag_is_explained(name: str) -> None:
    flags = [param for param in COMMANDS[name].params if isinstance(param, click.Option)]

    assert [flag.name for flag in flags if not flag.help] == []


def test_a_command_that_is_mistyped_is_named() -> None:
    ended = CliRunner().invoke(main, ["apend", "orders", "sku=42"])

    assert ended.exit_code == 2
    assert "No such command 'apend'. Did you mean 'append'?" in ended.stderr


async def test_groups_are_completed(live: Live) -> None:
    await live.append("orders", "1")
    for name in ("billing", "mail", "books"):
        await live.create_group("orders", name)

    variables = {
        "_HEADGATE_COMPLETE": "bash_complete",
        "COMP_WORDS": "headgate pending orders b",
        "COMP_CWORD": "3",
    }
    ended = await headgate(live.url, **variables)

    assert sorted(line.removeprefix("plain,") for line in ended.lines) == ["billing", "books"]


async def test_health_is_told_as_json(live: Live) -> None:
    ended = await headgate(live.url, "health", "--json")

    assert json.loads(ended.output) == (await live.http.get("/readyz")).json()
