"""The command line: `headgate NAME` is the file NAME of the folder `commands`."""

from headgate.app.cli.command_line import main

__all__ = ["main"]
