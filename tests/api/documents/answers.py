"""Answers of the guide, compared with what their commands print."""

import re
from itertools import zip_longest

from tests.api.documents.snippets import Snippet

_ID = r"\d{13}-\d+|\d{20}_\d{20}"
"""Ids of entries, and offsets. What a page names twice is the same each time it is run."""

_KEY_ID = r"[a-z2-7]{10}"

_VARYING = {
    "id": _ID,
    "time": r"\d{4}-\d\d-\d\d[T ][\d:.]+(?:Z|\+00:00)|\d\d:\d\d:\d\d\.\d{3}|\b\d{13}\b",
    "duration": r'(?<="idle_ms":)\d+|(?<="delay_ms":)\d+|(?<=retry: )\d+|\b\d+ m?s\b',
    "count": r'(?<="entries":)\d+',
    "size": r'(?<="bytes":)\d+|\d+ bytes|\d+ (?:objects|parts)',
    "uuid": r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    "checksum": r"\b[0-9a-f]{64}\b|sha384-[\w+/]{64}",
    "secret": r'hg_\w+|whsec_[\w+/=]+|(?<=key )[a-z2-7]{10}\b|(?<="id":")[a-z2-7]{10}\b',
    "name": r"msg_\w+-\d+|w_[0-9a-f]{24}|file://[\w/-]+",
    "cursor": r'(?<="position":")[\w-]{15,}|(?<="at":")[\w-]{15,}|(?<=id: )[a-z][\w-]{14,}',
}
"""Values that differ from run to run. Everything else must be as the page shows it."""

_PIECES = re.compile(f"({'|'.join(_VARYING.values())}|…)")
_ERASED = re.compile(r"[^\n]*(?:\r\x1b\[2K|\n[^\n]*\x1b\[1A\x1b\[2K)")
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_STRING_OR_SPACE = re.compile(r'("(?:\\.|[^"\\])*")|\s+')


def check_output(snippet: Snippet, printed: str, url: str, ids: dict[str, str]) -> None:
    """Check that a program has printed its answer, as `check_answer` does.

    Args:
        snippet: the program.
        printed: by it.
        url: the gateway that it was run at.
        ids: those of this run, by those of the page.
    """
    printed = printed.replace(url.removeprefix("http://"), "localhost:8080")
    check_answer(snippet.answer, printed, ids, is_json=snippet.kind == "json")


def check_answer(shown: str, printed: str, ids: dict[str, str], *, is_json: bool) -> None:
    """Check that a command has printed what its page shows, `…` standing for anything.

    Args:
        shown: the answer on the page.
        printed: by the command.
        ids: those of this run, by those of the page: what is new is added.
        is_json: whether spaces outside of strings do not count.
    """
    plain = _without_spaces if is_json else _lines
    printed = _ESCAPE.sub("", _ERASED.sub("", printed)).replace("\r", "")
    pattern, names = "", list[str]()
    pieces = _PIECES.split(plain(shown))
    for text, value in zip_longest(pieces[::2], pieces[1::2], fillvalue=""):
        pattern += re.escape(text)
        if value == "…":
            pattern += ".*?"
        elif re.fullmatch(_ID, value) and value in ids:
            pattern += re.escape(ids[value])
        elif re.fullmatch(_ID, value) and value in names:
            pattern += rf"(?:\{names.index(value) + 1})"
        elif value:
            names.append(value)
            pattern += f"({'|'.join(_VARYING.values())})"
    match = re.fullmatch(pattern, plain(printed), re.DOTALL)
    assert match, f"The page shows\n{shown}\nand the command prints\n{printed}"
    values = zip(names, match.groups(), strict=True)
    ids |= {name: value for name, value in values if re.fullmatch(f"{_ID}|{_KEY_ID}", name)}


def _without_spaces(text: str) -> str:
    return _STRING_OR_SPACE.sub(lambda match: match[1] or "", text)


def _lines(text: str) -> str:
    """Return the lines of a text; how far their columns are apart is left out."""
    return "\n".join(" ".join(line.split()) for line in text.strip().split("\n"))
