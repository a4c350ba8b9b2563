from typing import Literal

import click
from click.shell_completion import get_completion_class

from headgate.app.cli.declaration import argument, command


@command("completion", failed="", short_help="Print a completion script for your shell.")
def completion_command(shell: Literal["bash", "zsh", "fish"] = argument()) -> None:
    """Print a script that completes commands, flags, streams and groups in your shell.

        bash:  headgate completion bash > ~/.local/share/bash-completion/completions/headgate
        zsh:   headgate completion zsh > ~/.zfunc/_headgate      (~/.zfunc on the fpath)
        fish:  headgate completion fish > ~/.config/fish/completions/headgate.fish

    The names of streams and groups come from the gateway at HEADGATE_URL. If it is not reachable,
    names are not completed.
    """
    make = get_completion_class(shell)
    assert make is not None
    root = click.get_current_context().find_root().command
    click.echo(make(root, {}, "headgate", "_HEADGATE_COMPLETE").source())
