"""The rules of the project that no other tool checks. Each message says what to do instead."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CODE = ["app", "engine", "pipeline"]
FILES_MAX = 16
"""Beside each other in a folder."""

ONE_FILE_EACH = ["app/cli", "app/routes", "pipeline/jobs"]
"""Folders with one file for each command, noun or job: they have as many as there are."""

FUNCTION_LINES_MAX = 60
"""Of a function, without its docstring."""

NO_NOUNS = ["common", "core", "handler", "helper", "helpers", "manager", "managers", "misc"]
NO_NOUNS += ["service", "services", "tools", "util", "utils"]

EMPTY_DOCSTRINGS = ["Keep the name.", "Keep the names.", "Return the wire form."]
"""They repeat the name, which is worse than none."""

FORMS = ["app/live/frames.py", "app/routes/events.py", "app/wire/schemas/"]
"""Models of what is on the wire have the name of what they are a form of."""


def sources(*folders: str) -> Iterator[tuple[str, ast.Module]]:
    """Yield the files of ours below folders: their path, and what is in them."""
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield str(path.relative_to(ROOT)), ast.parse(path.read_text("utf-8"))


def folders() -> list[str]:
    """Return the folders that hold code, but for those with one file for each thing."""
    return sorted({str(Path(path).parent) for path, _ in sources(*CODE)} - {*ONE_FILE_EACH})


def test_a_file_is_named_by_a_noun_of_the_field() -> None:
    wrong = [path for path, _ in sources(*CODE) if Path(path).stem in NO_NOUNS]
    assert not wrong, f"{wrong}: name the file by what is in it, a noun of the field"


@pytest.mark.parametrize("folder", folders())
def test_a_folder_can_be_taken_in_at_a_glance(folder: str) -> None:
    files = [path for path in (ROOT / folder).glob("*.py") if path.name != "__init__.py"]
    text = f"{folder} has {len(files)} files: put those that are about one thing into a folder"
    assert len(files) <= FILES_MAX, text


def test_a_function_can_be_read_at_once() -> None:
    long = [
        f"{path}: {node.name} has {lines} lines"
        for path, module in sources(*CODE)
        for node in ast.walk(module)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := length_of(node)) > FUNCTION_LINES_MAX
    ]
    assert not long, f"{long}: give a step of it a name, and a function of its own"


def length_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return how many lines a function has, without its docstring."""
    first, has_docstring = function.body[0], ast.get_docstring(function) is not None
    docstring = lines_of(first) if has_docstring else 0
    return lines_of(function) - docstring


def lines_of(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


@pytest.mark.parametrize("programs", [["app", "engine"], ["pipeline"]])
def test_a_class_has_a_name_of_its_own(programs: list[str]) -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path, module in sources(*programs):
        if not path.startswith(tuple(FORMS)):
            for node in ast.walk(module):
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    places[node.name].append(path)
    twice = {name: paths for name, paths in places.items() if len(paths) > 1}
    assert not twice, f"{twice}: one name means one thing: rename one by what it is"


def test_no_docstring_repeats_a_name() -> None:
    empty = [
        f"{path}: {node.name}"
        for path, module in sources(*CODE)
        for node in ast.walk(module)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (ast.get_docstring(node) or "") in EMPTY_DOCSTRINGS
    ]
    assert not empty, f"{empty}: say what it does, or say nothing"
