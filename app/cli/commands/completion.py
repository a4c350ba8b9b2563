"""`headgate completion`."""

import click
from click.shell_completion import get_completion_class

from headgate.app.cli.manual import epilog

_HELP = """\
Print the script by which a shell completes commands, flags, streams and groups.

\b
bash:  headgate completion bash > ~/.local/share/bash-completion/completions/headgate
zsh:   headgate completion zsh > ~/.zfunc/_headgate      (~/.zfunc on the fpath)
fish:  headgate completion fish > ~/.config/fish/completions/headgate.fish

Names are asked of the gateway at HEADGATE_URL, and not completed if it is not there.
"""


@click.command(
    "completion",
    help=_HELP,
    short_help="Print a script for the shell's completion.",
    epilog=epilog(failed=""),
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion_command(ctx: click.Context, shell: str) -> None:
    """Print the script."""
    make = get_completion_class(shell)
    assert make is not None
    click.echo(make(ctx.find_root().command, {}, "headgate", "_HEADGATE_COMPLETE").source())
