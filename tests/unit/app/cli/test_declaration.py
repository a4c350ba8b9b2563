"""Commands that functions declare: what their parameters say need not be said again."""

from typing import Any, Literal

import click
from click.testing import CliRunner

from headgate.app.cli.declaration import argument, command, option


@command("send", failed="")
def send(
    as_json: bool,
    names: tuple[str, ...] = argument(),
    mode: Literal["fast", "safe"] = option("How.", default="safe"),
    wait_ms: int = option("So long.", default=0),
    loud: bool = option("Aloud."),
    tags: tuple[str, ...] = option("A tag.", None, "--tag"),
) -> None:
    """Send names.

        send ann   the first
        send bob   the second

    They are
    told.
    """
    click.echo((as_json, names, mode, wait_ms, loud, tags))


def run(*words: str) -> Any:
    return CliRunner().invoke(send, words)


def test_the_hints_say_what_is_taken() -> None:
    assert run().output == "(False, (), 'safe', 0, False, ())\n"
    words = (
        "ann",
        "bob",
        "--mode",
        "fast",
        "--wait",
        "2s",
        "--loud",
        "--tag=a",
        "--tag=b",
        "--json",
    )
    assert run(*words).output == "(True, ('ann', 'bob'), 'fast', 2000, True, ('a', 'b'))\n"
    assert "'slow' is not one of 'fast', 'safe'" in run("--mode", "slow").output
    assert "not valid UTF-8" in run("\udcff").output


def test_the_docstring_is_the_help() -> None:
    shown = run("--help").output
    assert "  send ann   the first\n  send bob   the second\n\n  They are told.\n" in shown
    assert "How.  [default: safe]" in shown
    assert shown.index("--tag") < shown.index("--json")
    assert "[default: 0" not in shown
