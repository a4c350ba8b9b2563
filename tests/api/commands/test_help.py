"""Each command's help and completion."""

from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from headgate.app.cli.command_line import main


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
def test_each_command_is_explained(name: str) -> None:
    command = COMMANDS[name]
    text = command.get_help(click.Context(command, info_name=name))
    assert f"{name} " in f"{text.partition(chr(10))[2]} ".replace("\n", " ")  # an example
    codes = [int(line.split()[0]) for line in text.partition("Exit codes:\n")[2].splitlines()]
    assert codes == sorted(codes)
    assert {0, 2} <= set(codes) <= {0, 1, 2, 130}
    flags = [param for param in command.params if isinstance(param, click.Option)]
    assert [flag.name for flag in flags if not flag.help] == []
    assert any("--json" in flag.opts for flag in flags) != (name in WITHOUT_JSON)
    ended = CliRunner().invoke(main, [*name.split()[1:], "--no-such-flag"])
    assert (ended.exit_code, ended.stdout) == (2, "")


def test_commands_stand_in_sections() -> None:
    assert WITHOUT_JSON.keys() <= COMMANDS.keys()
    text = CliRunner().invoke(main, ["--help"]).stdout
    shown = {line.split()[0] for line in text.splitlines() if line.startswith("  ")}
    assert {name.split()[1] for name in COMMANDS} <= shown
    for section in ("Run a gateway:", "Use a running gateway:", "For tools:"):
        assert section in text.splitlines()


def test_a_command_that_is_mistyped_is_named() -> None:
    ended = CliRunner().invoke(main, ["apend", "orders", "sku=42"])

    assert ended.exit_code == 2
    assert "No such command 'apend'. Did you mean 'append'?" in ended.stderr
