"""The command line: `headgate NAME` is the file NAME of this folder."""

from headgate.app.cli.commands import main

__all__ = ["main"]
