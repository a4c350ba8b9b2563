"""`python -m headgate.app.cli` is `headgate`."""

from headgate.app.cli.command_line import main

main(prog_name="headgate")
