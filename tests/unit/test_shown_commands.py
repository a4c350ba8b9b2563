"""Commands that are shown to users can be pasted into bash and zsh, and install what there is.

zsh takes `?`, `*` and `[` for the name of a file, and refuses a command in which they stand without
quotes. On its command line a `#` begins no comment.
"""

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
SHOWN = ["app", "clients", "deploy", "engine", "pipeline", "examples", "openapi"]
SHOWN += ["tests/bench", "tests/fuzz"]
KINDS = {".md", ".py", ".html", ".js", ".ts", ".json"}
MADE = {"node_modules", "assets"}  # of programs, which others have written in part
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_QUOTED = re.compile(r"'[^']*'|\"(?:\\.|[^\"\\])*\"|\\\?")
_GLOB = re.compile(r"[?*\[]")


def files() -> list[Path]:
    paths = [path for folder in SHOWN for path in (ROOT / folder).rglob("*")]
    return [
        *ROOT.glob("*.md"),
        *(path for path in paths if path.suffix in KINDS and MADE.isdisjoint(path.parts)),
    ]


def globs_of(command: str) -> list[str]:
    """Return the words that zsh would expand."""
    return [word for word in _QUOTED.sub("", command).split() if _GLOB.search(word)]


def curls_in(text: str) -> Iterator[str]:
    """Yield each call of curl, to the end of its line or of the code in the prose."""
    for line in text.splitlines():
        yield from re.findall(r"(?<!`)\bcurl (-.*|\S*(?:localhost|/v1/|\{).*)", line)
        yield from re.findall(r"`curl ([^`]+)`", line)


def test_every_url_with_a_query_is_quoted() -> None:
    bad = [
        f"{path.relative_to(ROOT)}: curl {call}"
        for path in files()
        for call in curls_in(path.read_text("utf-8"))
        if any("?" in word for word in globs_of(call))
    ]
    assert bad == []


def test_every_block_of_commands_can_be_pasted() -> None:
    blocks = [
        (path.relative_to(ROOT), block)
        for path in files()
        if path.suffix == ".md"
        for kind, block in _BLOCK.findall(path.read_text("utf-8"))
        if kind in ("", "sh")
    ]
    assert len(blocks) > 50
    assert [(path, words) for path, block in blocks if (words := globs_of(block))] == []
    assert [each for each in blocks if re.search(r"(^|\s)#", _QUOTED.sub("", each[1]))] == []


def test_nothing_is_installed_from_an_index_before_it_is_there() -> None:
    bad = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in files()
        for line in path.read_text("utf-8").splitlines()
        if re.search(r"pip install [^`]*\bheadgate\b(?!-)", line)
    ]
    assert bad == [], "until it is published: pip install -e '.[spark]'"
