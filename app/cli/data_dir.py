"""Data directory: the flag for where the journal of a gateway is."""

import resource
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import click


def data_dir_option(text: str, *, exists: bool) -> Callable[..., Callable[..., None]]:
    """Return the flag.

    Args:
        text: its help.
        exists: it has to be there.
    """
    kind: click.Path[Any] = click.Path(file_okay=False, exists=exists, path_type=Path)
    return click.option(
        "--data-dir",
        type=kind,
        default=Path("data"),
        envvar="HEADGATE_DATA_DIR",
        show_envvar=True,
        show_default=True,
        help=text,
    )


def take_all_descriptors() -> None:
    """Raise the limit of open files as far as the system allows."""
    _, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # some systems allow less than they say
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard_limit, hard_limit))
