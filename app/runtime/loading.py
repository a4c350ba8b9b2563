"""Loading: shows how much of a journal has been read, or copied."""

import click

_LARGE_BYTES = 8 * 2**20
"""A journal smaller than this is loaded before anybody could read about it."""


def show_progress(done: int, total: int, what: str = "Loading") -> None:
    """Print on standard error how far the loading is, unless the files load at once.

    Args:
        done: bytes that are done.
        total: bytes in all.
        what: is done.
    """
    if total < _LARGE_BYTES:
        return
    end = "\n" if done == total else ""
    percentage = done * 100 // total
    click.echo(f"\r{what} {total / 2**20:.0f} MiB: {percentage} %{end}", nl=False, err=True)
