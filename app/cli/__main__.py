"""`python -m headgate.app.cli` is `headgate`."""

from headgate.app.cli.commands import main

main(prog_name="headgate")
