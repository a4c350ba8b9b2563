"""Lines of code, by top folder and language: without blank lines, comments and docstrings.

    python -m tests.count_lines

Counts what `git ls-files` lists. Documents, generated files and tests have tables of their own.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator, Mapping
from io import BytesIO
from pathlib import Path

ROOT = Path(__file__).parent.parent

LANGUAGES = {
    ".py": "Python",
    ".ts": "TypeScript",
    ".tsx": "TypeScript",
    ".js": "JavaScript",
    ".mjs": "JavaScript",
    ".lua": "Lua",
    ".java": "Java",
    ".go": "Go",
    ".css": "CSS",
    ".html": "HTML",
    ".md": "Markdown",
    ".json": "JSON",
    ".toml": "settings",
    ".yaml": "settings",
    ".yml": "settings",
    ".conf": "settings",
    ".service": "settings",
    ".properties": "settings",
}
OTHER = "other"
"""Files without a known ending: Makefile, Dockerfile, shell."""

GENERATED = [
    "app/SETTINGS.md",
    "app/examples.json",
    "clients/python/blocking/classes.py",
    "clients/typescript/client/src/wire/frames.ts",
    "clients/typescript/client/src/wire/types.ts",
    "examples/headgate-client.js",
    "openapi/*.json",
    "openapi/released/*.json",
    "requirements*.txt",
    "**/package-lock.json",
    "tests/bench/results/*",
    "tests/upgrade/format-*/*",
]
"""Files that programs write."""

LEFT_OUT = {".svg", ".typed"}

_SLASHES = r"/\*.*?\*/|(?m:^\s*//[^\n]*)"
_COMMENTS = {
    "TypeScript": _SLASHES,
    "JavaScript": _SLASHES,
    "Java": _SLASHES,
    "Go": _SLASHES,
    "CSS": r"/\*.*?\*/",
    "HTML": r"<!--.*?-->",
    "Lua": r"--\[\[.*?\]\]|(?m:^\s*--[^\n]*)",
    "settings": r"(?m:^\s*#[^\n]*)",
    OTHER: r"(?m:^\s*#(?!!)[^\n]*)",
}
"""Comments that have lines of their own. A comment behind code takes no line."""

_NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


def count(text: str, language: str) -> int:
    """Return how many lines of a file are code."""
    if language == "Python":
        return len(_code_lines(text))
    bare = re.sub(_COMMENTS.get(language, r"(?!)"), "", text, flags=re.DOTALL)
    return sum(not line.isspace() and line != "" for line in bare.splitlines())


def _code_lines(text: str) -> set[int]:
    lines: set[int] = set()
    for token in tokenize.tokenize(BytesIO(text.encode()).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return lines - set(_docstring_lines(ast.parse(text)))


def _docstring_lines(module: ast.Module) -> Iterator[int]:
    """Yield the lines of docstrings, those below constants included."""
    for node in ast.walk(module):
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                yield from range(node.lineno, (node.end_lineno or node.lineno) + 1)


def place_of(path: Path) -> str:
    """Return the table that a file is counted in."""
    if any(path.match(pattern) for pattern in GENERATED):
        return "generated"
    if path.suffix == ".md" or path.name == "LICENSE":
        return "documents"
    return "tests" if path.parts[0] == "tests" else "code"


def counts() -> Mapping[str, Counter[tuple[str, str]]]:
    """Return the lines of each table, by top folder and language."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    tables: dict[str, Counter[tuple[str, str]]] = {
        place: Counter() for place in ("code", "tests", "documents", "generated")
    }
    for name in filter(None, listed.split("\0")):
        path = Path(name)
        if (ROOT / path).is_symlink() or path.suffix in LEFT_OUT:
            continue
        try:
            text = (ROOT / path).read_text("utf-8")
        except UnicodeDecodeError:
            continue  # bytes, as journals of older formats are
        place = place_of(path)
        deep = place == "tests" and len(path.parts) > 2
        folder = "/".join(path.parts[: 2 if deep else 1]) if len(path.parts) > 1 else "."
        language = LANGUAGES.get(path.suffix, OTHER)
        tables[place][folder, language] += count(text, language)
    return tables


def table(title: str, lines: Counter[tuple[str, str]]) -> str:
    """Return a table of folders and languages, with sums."""
    languages = sorted({language for _, language in lines})
    rows = [[title, *languages, "all"]]
    for folder in sorted({folder for folder, _ in lines}):
        row = [lines[folder, language] for language in languages]
        rows.append([folder, *(f"{each:,}" if each else "" for each in row), f"{sum(row):,}"])
    sums = [sum(lines[key] for key in lines if key[1] == language) for language in languages]
    rows.append(["all", *(f"{each:,}" for each in sums), f"{lines.total():,}"])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )


def main() -> None:
    """Print a table for each kind of file."""
    tables = counts()
    sys.stdout.write("\n\n".join(table(title, lines) for title, lines in tables.items()) + "\n")


if __name__ == "__main__":
    main()
