"""Declaration of commands: a function, whose parameters say what flags and arguments it takes."""

import inspect
import textwrap
from collections.abc import Callable, Mapping, Sequence
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import click

from headgate.app.cli.durations import DURATION, TIME_TO_COME, Parsed

CALL = "the gateway refused the request or is not reachable"
"""Why a command that calls a gateway ends with 1."""

_MISUSE = "invalid arguments"

_UNFILLED = "\b\n"
"""Keeps click from filling the paragraph that comes."""


def utf8(text: str) -> str:
    """Return a text that is UTF-8.

    Raises:
        ValueError: it is not.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("not valid UTF-8") from None
    return text


UTF8 = Parsed("text", utf8)


# Parameters of commands.
#
# A function declares each parameter by its default: `option(…)` or `argument(…)`. What the type
# hint says is not said again: text is UTF-8, a bool is a flag, a tuple takes several words, and a
# Literal is a choice. A number whose name ends with `_ms` is a duration, and with `_at_ms` a time
# to come. Parameters without a default are known by their names.

Declared = Callable[[str, Any], click.Parameter]
"""Makes a parameter, given its name and its type hint."""


def option(text: str, kind: Any = None, *flags: str, **attributes: Any) -> Any:
    """Declare a flag: that of its name, without `_ms`, unless it is given.

    Args:
        text: its help.
        kind: the type of click, unless it follows from the type hint.
        flags: how it is written.
        attributes: what else click is to know of it.
    """

    def declare(name: str, hint: Any) -> click.Parameter:
        known = {"is_flag": True} if hint is bool else _typed(kind, name, hint)
        if get_origin(hint) is tuple:
            known["multiple"] = True
        if attributes.get("default"):  # one that is empty says nothing
            known["show_default"] = True
        flag = flags or (f"--{name.removesuffix('_ms').replace('_', '-')}",)
        return click.Option([*flag, name], help=text, **(known | attributes))

    return declare


def argument(kind: Any = None, **attributes: Any) -> Any:
    """Declare an argument; see `option`."""

    def declare(name: str, hint: Any) -> click.Parameter:
        known = _typed(kind, name, hint)
        if get_origin(hint) is tuple:
            known["nargs"] = -1
        return click.Argument([name], **(known | attributes))

    return declare


def _typed(kind: Any, name: str, hint: Any) -> dict[str, Any]:
    """Return the type of click for a parameter, in the words of click."""
    if kind is not None:
        return {"type": kind}
    if NoneType in get_args(hint):
        [hint] = set(get_args(hint)) - {NoneType}
    if get_origin(hint) is Literal:
        return {"type": click.Choice(get_args(hint))}
    if hint is int and name.endswith("_ms"):
        return {"type": TIME_TO_COME if name.endswith("_at_ms") else DURATION}
    return {"type": UTF8} if hint is str or get_args(hint)[:1] == (str,) else {}


JSON = option("Print one JSON value per line.", None, "--json")
_LAST: Mapping[str, Declared] = {"yes": option("Do not ask for confirmation."), "as_json": JSON}
"""They stand behind all others."""
_NONE: Mapping[str, Declared] = {}


def command(
    name: str,
    example: str = "",
    *,
    group: click.Group | None = None,
    failed: str = CALL,
    is_stopped: bool = False,
    more: Sequence[click.Parameter] = (),
    known: Mapping[str, Declared] = _NONE,
    kind: type[click.Command] = click.Command,
    short_help: str | None = None,
) -> Callable[[Callable[..., Any]], click.Command]:
    """Return the decorator that makes a command of a function, whose docstring is the help.

    Args:
        name: of the command.
        example: a call; none if the help has some.
        group: to which it belongs.
        failed: what the exit code 1 means; empty if the command cannot fail.
        is_stopped: SIGTERM and Ctrl-C end it as they should.
        more: parameters behind those that the function declares.
        known: parameters that the function need not declare.
        kind: the class of the command.
        short_help: its line in the list of commands, unless the first sentence of its help.
    """

    def declare(function: Callable[..., Any]) -> click.Command:
        hints = get_type_hints(function)
        own, last = list[click.Parameter](), list[click.Parameter]()
        for each, parameter in inspect.signature(function).parameters.items():
            if parameter.default is not parameter.empty:
                own.append(parameter.default(each, hints[each]))
            elif each in known:
                own.append(known[each](each, hints[each]))
            elif each in _LAST:
                last.append(_LAST[each](each, hints[each]))
        made = kind(
            name,
            params=[*own, *more, *last],
            callback=function,
            help=_help_of(function),
            short_help=short_help,
            epilog=epilog(example, failed=failed, is_stopped=is_stopped),
        )
        if group is not None:
            group.add_command(made)
        return made

    return declare


def _help_of(function: Callable[..., Any]) -> str:
    """Return the docstring of a function; paragraphs that are indented stay as they are.

    Behind the first line one paragraph at least has to stand at the margin.
    """
    paragraphs = (inspect.getdoc(function) or "").split("\n\n")
    return "\n\n".join(
        f"{_UNFILLED}{textwrap.dedent(each)}" if each.startswith(" ") else each
        for each in paragraphs
    )


def epilog(example: str = "", *, failed: str = CALL, is_stopped: bool = False) -> str:
    """Return an example, and what the exit codes of a command mean; see `command`."""
    done, interrupted = "success", "interrupted by Ctrl-C"
    if is_stopped:
        done, interrupted = "success, or stopped by SIGTERM or Ctrl-C", ""
    misuse = f"{_MISUSE}; no request was sent" if failed.startswith(CALL) else _MISUSE
    codes = {0: done, 1: failed, 2: misuse, 130: interrupted}
    lines = [f"{code:>5}  {meaning}" for code, meaning in codes.items() if meaning]
    shown = _UNFILLED + "\n".join(["Exit codes:", *lines])
    return f"{_UNFILLED}Example:\n  {example}\n\n{shown}" if example else shown
