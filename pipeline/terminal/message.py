"""Messages: an error of a job in one line, for the person at the terminal."""

from __future__ import annotations

import re

from headgate.pipeline.location import cause_of

_CALLING = re.compile(r"An error occurred while calling ")
"""The first words of py4j for any error of the JVM."""

_THROWN = re.compile(r"^(?:Caused by)?: *(?:[\w$]+\.)+([\w$]+)(?:: (.+))?$", re.MULTILINE)

_HINT = "(?:No token was sent|The token was that of)"


def message_of(error: BaseException) -> str:
    """Return the message of an error for the person at the terminal, in one line.

    What goes wrong in a task reaches the driver as text: the traceback of a worker, whose last
    line is the error, wrapped in what the JVM has to say about it.
    """
    text = str(error).strip() or type(error).__name__
    cause = cause_of(text)
    if cause is not None:
        return cause
    ours = re.findall(rf"^headgate\.[\w.]+: (.+(?:\n{_HINT}.+)?)$", text, re.MULTILINE)
    if ours:
        return " ".join(str(ours[-1]).splitlines())
    errors = re.findall(r"^(?:\w+\.)*\w*(?:Error|Exception): (.+)$", text, re.MULTILINE)
    if errors and "Traceback" in text:
        return str(errors[-1])
    thrown: list[tuple[str, str]] = _THROWN.findall(text)
    if thrown and _CALLING.match(text):
        name, detail = next((pair for pair in reversed(thrown) if pair[1]), thrown[-1])
        return detail.strip() or name
    line = next(line.strip() for line in text.splitlines() if line.strip())
    return " ".join([line, *getattr(error, "__notes__", [])])
