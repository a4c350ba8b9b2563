"""`python -m app.cli` is `headgate`."""

from app.cli.commands import main

main(prog_name="headgate")
