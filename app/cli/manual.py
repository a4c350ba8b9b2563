"""Manual: what the help of a command ends with."""

CALL = "refused, or the gateway is not reachable"
"""Why a command that calls a gateway ends with 1."""

_MISUSE = "the words of the command make no sense; nothing was asked"

_UNFILLED = "\b\n"
"""Keeps click from filling the paragraph that comes."""


def epilog(example: str = "", *, failed: str = CALL, is_stopped: bool = False) -> str:
    """Return an example, and what the exit codes of a command mean.

    Args:
        example: a call; none if the text of the command has some.
        failed: what 1 means; empty if the command cannot fail.
        is_stopped: SIGTERM and Ctrl-C end it as they should.
    """
    done, interrupted = "done", "ended by Ctrl-C"
    if is_stopped:
        done, interrupted = "done, or stopped by SIGTERM or Ctrl-C", ""
    codes = {0: done, 1: failed, 2: _MISUSE, 130: interrupted}
    lines = [f"{code:>5}  {meaning}" for code, meaning in codes.items() if meaning]
    shown = _UNFILLED + "\n".join(["Exit codes:", *lines])
    return f"{_UNFILLED}Example:\n  {example}\n\n{shown}" if example else shown
