"""Logged: what uvicorn may write into the log.

At the level `debug` it writes a line for each WebSocket, with the whole URL. A query may have a
ticket in it, under a name that is written in many ways (`%74icket`). So the log has no queries.
"""

import logging

_LOGGER = "uvicorn.error"


def leave_out_queries() -> None:
    """Keep queries out of the log of this process."""
    logging.getLogger(_LOGGER).addFilter(_without_queries)


def _without_queries(record: logging.LogRecord) -> bool:
    if isinstance(record.args, tuple):
        record.args = tuple(map(_without_query, record.args))
    return True


def _without_query(value: object) -> object:
    """Return an argument of a line, a URL without its query."""
    if not isinstance(value, str):
        return value
    path, mark, _ = value.partition("?")
    return f"{path}{mark}…" if mark else path
