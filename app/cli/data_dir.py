"""Data directory: the flag for where the journal of a gateway is."""

import resource
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from headgate.app.cli.declaration import option


def data_dir_option(text: str, *, exists: bool) -> Any:
    """Return the flag; `exists` requires the directory to be there."""
    return option(
        text,
        click.Path(file_okay=False, exists=exists, path_type=Path),
        default=Path("data"),
        envvar="HEADGATE_DATA_DIR",
        show_envvar=True,
    )


def take_all_descriptors() -> None:
    """Raise the soft limit of open files to the hard limit."""
    _, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # some systems allow less than they say
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard_limit, hard_limit))
